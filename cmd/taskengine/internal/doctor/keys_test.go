package doctor

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

func TestDoctorSaysWhichKeysAreInUse(t *testing.T) {
	folder := t.TempDir()
	p := stores.Location{Driver: config.Bolt, Path: folder, Name: "bolt:" + folder}
	store, err := bolt.Open(filepath.Join(folder, stores.BoltFile), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]byte{"2025": bytes.Repeat([]byte{1}, codec.KeySize), "2026": bytes.Repeat([]byte{2}, codec.KeySize)}
	for i, name := range []string{"2025", "2026", "2026", ""} {
		by, err := codec.New(codec.Config{Key: name, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Open(t.Context(), engine.Config{Store: store, Codec: by, Handlers: map[string]task.Handler{
			"mail": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		}})
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := e.Submit(t.Context(), engine.Request{Type: "mail", Payload: []byte("x")}, engine.Request{Type: "later", Payload: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 { // no node uses an empty one
			empty, err := e.Submit(t.Context(), engine.Request{Type: "later"}, engine.Request{Type: "later"})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.Signal(t.Context(), engine.Signal{To: empty[1].ID, Name: "s", Data: []byte("x"), Keep: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.WaitTasks(t.Context(), receipts[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := Examine(t.Context(), p, Options{Keys: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		if f.Check == "keys" {
			got = append(got, f.What)
		}
	}
	want := []string{`no key: 1 tasks that have not ended, 1 that have`, `the key "2025": 1 tasks that have not ended, 1 that have`, `the key "2026": 3 tasks that have not ended, 2 that have`}
	for i, w := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], w+", which are kept until 2") {
			t.Fatalf("found %q, want %q, of %v", got, want, found)
		}
	}
}
