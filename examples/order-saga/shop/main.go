// Shop takes orders over HTTP, and carries each one out as a task in steps: charge the customer, reserve all items, wait until a
// person has approved the order, ship it. If an item is out of stock, or no person approves, the earlier steps are undone. The tasks are in
// a folder, so a shop that is killed goes on with its orders when it starts again.
//
//	POST /orders/{number}           {"items": ["book", "pen"], "cents": 4200}
//	POST /orders/{number}/approved  the web hook by which an order is approved
//	GET  /orders/{number}           its state
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

func main() {
	data := flag.String("data", "orders.db", "the folder of the tasks")
	listen := flag.String("listen", "127.0.0.1:8080", "where the shop takes orders")
	world := flag.String("world", "http://127.0.0.1:8081", "where the bank, the warehouse and the carrier are")
	patience := flag.Duration("patience", 48*time.Hour, "how long an order waits for its approval")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *data, *listen, &shop{world: *world, patience: *patience}); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, data, listen string, s *shop) (err error) {
	store, err := pebble.Open(data, pebble.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	soon := policy.DefaultType()
	soon.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: 10 * time.Millisecond, Factor: 2, Max: time.Minute}}
	e, err := engine.Open(ctx, engine.Config{
		Store:    store,
		Log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Policies: policy.Set{Slots: 50, Types: map[string]policy.Type{"order": soon, "reserve": soon, "release": soon}},
		Handlers: map[string]task.Handler{
			"order":   steps.Handler(steps.Options{Version: 1}, s.order),
			"reserve": task.HandlerFunc(s.reserve),
			"release": task.HandlerFunc(s.release),
		},
		Retry: decide,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: s.routes(e), ReadHeaderTimeout: 10 * time.Second}
	fmt.Printf("the shop is open at http://%v\n", l.Addr())
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return web.Shutdown(context.WithoutCancel(ctx))
	}
}

// decide makes a reservation fail for good when the item is out of stock. The policy of the type retries other errors.
func decide(f engine.Failure) engine.Decision {
	if f.Verdict.Class == outOfStock {
		return engine.Decision{To: task.Failed}
	}
	return engine.Decision{}
}
