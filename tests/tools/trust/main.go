// trust DIR FULCIO.pem CACHE: what Crossplane's signature check wants of Sigstore at its start.
//
// It makes a TUF repository in DIR with one root certificate, and trusts it in Crossplane's package
// cache, as `cosign initialize` does. Keys of logs are files of their own (environment).
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/sigstore/sigstore/pkg/tuf"
	gotuf "github.com/theupdateframework/go-tuf"
)

const target = "fulcio.crt.pem"

func main() {
	folder, certificate, cache := os.Args[1], os.Args[2], os.Args[3]
	root, err := repository(folder, certificate)
	check(err)
	check(os.Setenv(tuf.TufRootEnv, filepath.Join(cache, ".sigstore", "root")))
	check(tuf.Initialize(context.Background(), "file://"+filepath.Join(folder, "repository"), root))
}

// repository writes DIR/repository with the certificate as its only target, and returns its root.
func repository(folder, certificate string) ([]byte, error) {
	staged := filepath.Join(folder, "staged", "targets")
	if err := os.MkdirAll(staged, 0o755); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(certificate)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(staged, target), text, 0o644); err != nil {
		return nil, err
	}
	made, err := gotuf.NewRepo(gotuf.FileSystemStore(folder, nil))
	if err != nil {
		return nil, err
	}
	if err := made.Init(false); err != nil {
		return nil, err
	}
	expires := time.Now().AddDate(0, 1, 0)
	for _, role := range []string{"root", "targets", "snapshot", "timestamp"} {
		if _, err := made.GenKeyWithExpires(role, expires); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{
		func() error { return made.AddTargetWithExpires(target, nil, expires) },
		func() error { return made.SnapshotWithExpires(expires) },
		func() error { return made.TimestampWithExpires(expires) },
		made.Commit,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(filepath.Join(folder, "repository", "root.json"))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
