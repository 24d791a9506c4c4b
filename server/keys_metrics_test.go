package server_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestKeysThatAreUsedAndThoseThatAreMissingAreCounted(t *testing.T) {
	store := memory.New()
	open := func(n *node, keys, handled string) {
		t.Helper()
		secrets := make(map[string][]byte)
		for _, k := range keys {
			secrets[string(k)] = bytes.Repeat([]byte{byte(k)}, codec.KeySize)
		}
		c, err := codec.New(codec.Config{Key: keys[:1], Keys: secrets})
		if err != nil {
			t.Fatal(err)
		}
		conf := engine.Config{Store: store, Codec: c, Handlers: make(map[string]task.Handler)}
		if handled != "" {
			conf.Handlers[handled] = task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil })
		}
		if n.engine, err = engine.Open(t.Context(), conf); err != nil {
			t.Fatal(err)
		}
		n.metrics, n.health = server.NewMetrics([]string{"mail"}, server.Build{}), new(server.Health)
		n.metrics.Watch(n.engine, nil)
	}
	closed := func(n *node) {
		t.Helper()
		if err := n.engine.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	until := func(n *node, series string, least float64) {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			text, got := scrape(t, n)
			if got[series] >= least {
				return
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s does not reach %v:\n%s", series, least, text)
			}
		}
	}
	const missing, used = `taskengine_key_missing_tasks{key="k"}`, `taskengine_key_decrypted_total{key="k"}`
	n := new(node)
	open(n, "k", "")
	for range 3 {
		if _, err := n.engine.Submit(t.Context(), engine.Request{Type: "mail", Payload: []byte("secret")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, got := scrape(t, n); got[missing] != 0 || got[used] != 0 {
		t.Errorf("before anything runs %v tasks wait for a key, and %v were decrypted", got[missing], got[used])
	}
	closed(n)
	open(n, "n", "mail")
	until(n, missing, 3)
	if _, got := scrape(t, n); got[missing] != 3 || got[used] != 0 {
		t.Errorf("without the key %v tasks wait for it, and %v were decrypted", got[missing], got[used])
	}
	closed(n)
	open(n, "nk", "mail")
	until(n, used, 3)
	if _, got := scrape(t, n); got[missing] != 0 {
		t.Errorf("with the key %v tasks wait for it", got[missing])
	}
	closed(n)
}
