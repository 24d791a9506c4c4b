// Command taskengine is a node of the task engine and the tool to manage it. Run `taskengine help`
// or read docs/cli.md for its use. Its command line is the package cmd/taskengine/internal/cli.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // the time zones, for systems that have none

	"github.com/taskengine/taskengine/cmd/taskengine/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:]))
}
