// Taskengine-bench runs taskengine as an adapter of bench/pressure and of the public comparison of queues on PostgreSQL:
// see package bench/pressure/adapter for its settings, and docs/benchmarks.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
)

func main() {
	through := flag.String("through", "postgres", "postgres: a node in this process, on DATABASE_URL; pebble: a node in this process, with a store in -dir; server: a client and a worker of the node at -address")
	dir := flag.String("dir", "", "the folder of the store of pebble")
	address := flag.String("address", "", "the address of the node of server, such as unix:/run/api.sock")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *through, *dir, *address); err != nil {
		fmt.Fprintln(os.Stderr, "taskengine-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, through, dir, address string) error {
	c, err := adapter.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	d := adapter.Descriptor{System: "taskengine", EventTables: []string{}, Extensions: []string{}, Version: version(), SchemaVersion: "current"}
	var q adapter.Queue
	switch through {
	case "postgres":
		d.EventTables, d.DBName = []string{"taskengine.task", "taskengine.key"}, databaseName(c.Database)
		q, err = openPostgres(ctx, c)
	case "pebble":
		q, err = openPebble(ctx, c, dir)
	case "server":
		q, err = openServer(c, address)
	default:
		err = fmt.Errorf("-through %s: write postgres, pebble or server", through)
	}
	if err != nil {
		return err
	}
	return adapter.Run(ctx, c, d, q, os.Stdin, os.Stdout)
}

// databaseName returns the name of the database of a URL, or "" if that is not known.
func databaseName(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}
