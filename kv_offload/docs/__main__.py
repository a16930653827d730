import sys

from kv_offload.docs import main

sys.exit(main(sys.argv[1:]))
