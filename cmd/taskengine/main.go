// Command taskengine is the node and the tool to speak with it. `taskengine help` and
// docs/cli.md say how to use it.
//
// One file holds one subcommand. The files open*.go are the only ones that open backends,
// and node.go is the order in which the parts of a node begin and end.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(fromOS().run(context.Background(), os.Args[1:]))
}
