package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/config"
	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/storage"
)

// errRefused is an error of a database that does not answer.
var errRefused = fmt.Errorf("connection refused: %w", io.EOF)

func TestADatabaseIsTriedUntilItAnswersAndTheReasonIsReported(t *testing.T) {
	// cutOff is a try that takes as long as it is let.
	cutOff := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	refused := func(context.Context) (int, error) { return 0, errRefused }
	for name, c := range map[string]struct {
		tries []func(context.Context) (int, error) // the last one again and again
		says  string                               // "" is that it is there
		took  time.Duration
	}{
		"one that is there":                     {tries: []func(context.Context) (int, error){func(context.Context) (int, error) { return 7, nil }}},
		"one that starts":                       {[]func(context.Context) (int, error){refused, refused, func(context.Context) (int, error) { return 7, nil }}, "", 2 * pause},
		"one that refuses":                      {[]func(context.Context) (int, error){refused}, "did not answer for 10s: connection refused", patience},
		"one that refuses, and then is silent":  {[]func(context.Context) (int, error){refused, cutOff}, "did not answer for 10s: connection refused", patience},
		"one that is silent":                    {[]func(context.Context) (int, error){cutOff}, "did not answer for 10s: context deadline exceeded", patience},
		"one that answers and cannot be used":   {[]func(context.Context) (int, error){refused, func(context.Context) (int, error) { return 0, errors.New("no tables") }}, "no tables", pause},
		"one that is no good when time is over": {[]func(context.Context) (int, error){refused, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, errors.New("cut off") }}, "did not answer for 10s: connection refused", patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, n := time.Now(), 0
				store, err := untilItAnswers(t.Context(), "storage.url", slog.New(slog.DiscardHandler), func(ctx context.Context) (int, error) {
					n++
					return c.tries[min(n, len(c.tries))-1](ctx)
				})
				if (err == nil) != (c.says == "") || err == nil && store != 7 || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("it gives %d, %v", store, err)
				}
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

func TestADatabaseThatCrashesAfterItWasOpenedIsTriedForAWhile(t *testing.T) {
	away := fmt.Errorf("the store: %w", storage.ErrUnavailable)
	for name, c := range map[string]struct {
		errs []error // of each use; the last one again and again
		uses int
		says string
	}{
		"one that answers":              {[]error{nil}, 1, ""},
		"one that comes back":           {[]error{away, errRefused, nil}, 3, ""},
		"one that does not come back":   {[]error{away}, int(patience/pause) + 2, "did not answer for 10s: the store: the store does not answer; start it, or correct storage.url, or storage.databases.b"},
		"one that cannot be used":       {[]error{errors.New("no tables")}, 1, "no tables"},
		"one that comes back in a mess": {[]error{away, errors.New("no tables")}, 2, "no tables"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				databases := config.Storage{Databases: map[string]config.Text{"b": {}}}
				err := Retry(t.Context(), databases, slog.New(slog.DiscardHandler), func(context.Context) error {
					n++
					return c.errs[min(n, len(c.errs))-1]
				})
				if n != c.uses || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("after %d uses it is %v; want %d and %q", n, err, c.uses, c.says)
				}
			})
		})
	}
}

func TestTheConfigurationHasTheLeasesThatNodesTake(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://localhost/tasks") // it is not connected
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, lease := range []time.Duration{time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Minute} {
		_, refused := config.Load("", []string{"coordination.lease=" + lease.String()}, func(string) (string, bool) { return "", false })
		c, err := coordination.New(pool, coordination.Options{Lease: lease})
		if (refused == nil) != (err == nil) {
			t.Errorf("a lease of %v: the configuration says %v, and a node %v", lease, refused, err)
		}
		if err == nil {
			_ = c.Close() // it has reached for nothing
		}
	}
}
