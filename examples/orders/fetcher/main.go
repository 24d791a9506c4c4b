// Fetcher is the handler of the slices: it asks a platform for the orders of a slice, and writes them to the table orders.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetcher:", err)
		os.Exit(1)
	}
	defer pool.Close()
	web := &client{base: os.Getenv("PLATFORMS"), http: &http.Client{}}
	f := &fetcher{
		sink:      &sink{pool: pool, lose: os.Getenv("LOSE")},
		platforms: map[string]platform{"shop": &shop{web}, "market": &market{web}, "depot": &depot{web}},
	}
	handler.Serve(handler.Handlers{"fetch": handler.JSON(f.fetch)})
}

// order is an order of any platform.
type order struct {
	number  string
	changed time.Time
	status  string
	cents   int64
}

// platform is the API of a platform.
type platform interface {
	// fetch passes all orders to write that have changed last at from or later, and before end. It may pass one more than once.
	fetch(ctx context.Context, from, end time.Time, write func([]order) error) error
}

type fetcher struct {
	sink      *sink
	platforms map[string]platform // by name
}

// slice is the payload of a task.
type slice struct {
	Platform  string
	From, End time.Time
}

// fetched is the result of a task.
type fetched struct {
	Orders int `json:"orders"`
}

func (f *fetcher) fetch(ctx context.Context, _ *task.Task, s slice) (done fetched, err error) {
	p, ok := f.platforms[s.Platform]
	if !ok {
		return done, task.Permanent(fmt.Errorf("there is no client for the platform %q", s.Platform))
	}
	err = p.fetch(ctx, s.From, s.End, func(some []order) error {
		done.Orders += len(some)
		return f.sink.write(ctx, s.Platform, some)
	})
	var refused *refusedError
	switch {
	case !errors.As(err, &refused):
		return done, err // any other error is retried as the slice says
	case refused.code == http.StatusTooManyRequests:
		return done, task.Snooze(refused.retryAfter) // which does not count as an attempt
	case refused.code == http.StatusUnprocessableEntity:
		return done, task.WithClass("split", err) // two tasks will fetch half of the slice each
	case refused.code < http.StatusInternalServerError:
		return done, task.Permanent(err)
	}
	return done, err
}
