package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

var documentIDs = task.NewIDs([32]byte{0xd0})

// addOne returns a write of a document with a number that is greater by one.
func addOne(d *task.Document) task.DocumentWrite {
	n, _ := strconv.Atoi(string(d.Data))
	return d.Write(strconv.AppendInt(nil, int64(n+1), 10))
}

// Tasks and a program count in documents, and the program deletes others, while the shards of all of them are moved again and again.
func TestDocumentsLoseNoCountThoughShardsAreMoved(t *testing.T) {
	const keys, tasks = 12, 8
	a, b := database(t, "a"), database(t, "b")
	var e *engine.Engine
	store := openHalves(t, a, b, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	count := policy.DefaultType()
	count.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
	var err error
	e, err = engine.Open(t.Context(), engine.Config{
		Store: store, Log: slog.New(slog.DiscardHandler), Policies: policy.Set{Slots: 16, Types: map[string]policy.Type{"count": count}},
		Handlers: map[string]task.Handler{"count": task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			d, err := task.ReadDocument(ctx, t.OrderingKey)
			if err != nil {
				return nil, err
			}
			return nil, task.Again(time.Time{}, task.WithDocuments(addOne(&d)))
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(key string) task.Document {
		for {
			d, err := e.Document(t.Context(), key)
			switch {
			case errors.Is(err, task.ErrNotFound):
				return task.Document{Key: key}
			case err == nil:
				return *d
			case t.Context().Err() != nil:
				t.Fatal(err)
			}
		}
	}
	moves := make(chan struct{})
	wants := make([]int, keys) // each is changed by one goroutine, until all have ended
	var all sync.WaitGroup
	for k := range keys {
		key, once := fmt.Sprint("count ", k), fmt.Sprint("once ", k)
		for range tasks {
			r := engine.Request{ID: documentIDs.NextIn(time.Now(), task.ShardOf(key)), Type: "count", OrderingKey: key}
			for _, err := e.Submit(t.Context(), r); err != nil; _, err = e.Submit(t.Context(), r) {
				if t.Context().Err() != nil {
					t.Fatal(err)
				}
			}
		}
		for e.WriteDocuments(t.Context(), task.DocumentWrite{Key: once, Data: []byte("there")}) != nil && t.Context().Err() == nil {
		}
		all.Go(func() {
			wants[k] = tasks
			for moving := true; (moving || wants[k] == tasks) && t.Context().Err() == nil; {
				select {
				case <-moves:
					moving = false
				default:
				}
				d := read(key)
				if e.WriteDocuments(t.Context(), addOne(&d)) == nil { // otherwise another one was first, or the shard is on its way
					wants[k]++
				}
			}
			for e.WriteDocuments(t.Context(), task.DocumentWrite{Key: once, Delete: true}) != nil && t.Context().Err() == nil {
			}
		})
	}
	for from, to, n := a, b, 0; n < 6; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 120), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	close(moves)
	all.Wait()
	for k := range keys {
		key, once := fmt.Sprint("count ", k), fmt.Sprint("once ", k)
		for begin := time.Now(); string(read(key).Data) != strconv.Itoa(wants[k]); time.Sleep(time.Millisecond) {
			if time.Since(begin) > 5*time.Minute {
				t.Fatalf("the document is %+v, want %d", read(key), wants[k])
			}
		}
		if d := read(once); d.Version != 0 {
			t.Errorf("a document that was deleted is %+v", d)
		}
	}
}
