import sys

from function.docs import main

sys.exit(main(sys.argv[1:]))
