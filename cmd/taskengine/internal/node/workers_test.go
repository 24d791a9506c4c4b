package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/taskengine/taskengine/config"
)

func TestTheAPIHasRoomForTheLargestResultOfAWorker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "taskengine.yaml")
	if err := os.WriteFile(file, []byte(`
storage: {driver: memory}
handlers: {pdf: {remote: {}}, other: {exec: [a]}}
types: {print: {handler: pdf, max_result: 60MiB}, scan: {handler: pdf, max_payload: 10MiB}, list: {handler: other, max_result: 64MiB}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	set, err := openHandlers(t.Context(), c, "node", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close(t.Context())
	if got := set.maxFrame(); got < 70<<20 || got > 77<<20 {
		t.Errorf("a frame may have %d bytes", got)
	}
}
