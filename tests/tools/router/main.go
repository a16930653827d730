// Command router hears an engine's KV events by llm-d's own library, as its router does, and says
// where it would find a prompt:
//
//	router ENGINE ENDPOINT TOPIC_FILTER BLOCK_TOKENS HASH_SEED
//
// ENGINE is whose events these are, as the router's settings have it: vllm or sglang.
// Each line of its input is a question: {"model", "tokens", "blocks", "seconds"}. It is answered by a
// line as soon as so many blocks of the prompt are known, or when the seconds are over: for each
// block, from the first on, those that have it, as "ADDRESS MEDIUM".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/llm-d/llm-d-kv-cache/pkg/kvcache/kvblock"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvevents/engineadapter"
	"k8s.io/apimachinery/pkg/util/sets"
)

const period = 50 * time.Millisecond

type question struct {
	Model   string   `json:"model"`
	Tokens  []uint32 `json:"tokens"`
	Blocks  int      `json:"blocks"`
	Seconds float64  `json:"seconds"`
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: router ENGINE ENDPOINT TOPIC_FILTER BLOCK_TOKENS HASH_SEED")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, engine string, args []string) error {
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	processor, err := kvblock.NewChunkedTokenDatabase(
		&kvblock.TokenProcessorConfig{BlockSizeTokens: size, HashSeed: args[3]})
	if err != nil {
		return err
	}
	index, err := kvblock.NewIndex(ctx, kvblock.DefaultIndexConfig())
	if err != nil {
		return err
	}
	adapter, err := engineadapter.NewAdapter(engine)
	if err != nil {
		return err
	}
	pool := kvevents.NewPool(kvevents.DefaultConfig(), index, processor, adapter)
	pool.Start(ctx)
	subscribers := kvevents.NewSubscriberManager(pool)
	if err := subscribers.EnsureSubscriber(ctx, "engine", args[0], args[1], true); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		keys, err := processor.TokensToKVBlockKeys(
			kvblock.EmptyBlockHash, asked.Tokens, asked.Model, nil)
		if err != nil {
			return err
		}
		held, err := await(ctx, index, keys, asked)
		if err != nil {
			return err
		}
		said, err := json.Marshal(held)
		if err != nil {
			return err
		}
		fmt.Println(string(said))
	}
	return lines.Err()
}

func await(
	ctx context.Context, index kvblock.Index, keys []kvblock.BlockHash, asked question,
) ([][]string, error) {
	end := time.Now().Add(time.Duration(asked.Seconds * float64(time.Second)))
	for {
		held, err := holders(ctx, index, keys)
		if err != nil || len(held) >= asked.Blocks || time.Now().After(end) {
			return held, err
		}
		time.Sleep(period)
	}
}

// holders says who has each block, from the first to the last that anybody has.
func holders(
	ctx context.Context, index kvblock.Index, keys []kvblock.BlockHash,
) ([][]string, error) {
	found, err := index.Lookup(ctx, keys, sets.New[string]())
	if err != nil {
		return nil, err
	}
	held := [][]string{}
	for _, key := range keys {
		if len(found[key]) == 0 {
			break
		}
		pods := []string{}
		for _, entry := range found[key] {
			pods = append(pods, entry.PodIdentifier+" "+entry.DeviceTier)
		}
		sort.Strings(pods)
		held = append(held, pods)
	}
	return held, nil
}
