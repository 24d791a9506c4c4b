// Ledger is a handler program: it appends the reading of a meter to a file. A reading that runs once more, because the
// node or this program died before it was known to be done, finds its line there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// reading is the value of a record, and so the payload of a task.
type reading struct {
	Meter string  `json:"meter"`
	KWh   float64 `json:"kwh"`
}

// ledger is a file with a line for each reading: where its record is, the meter and the value.
type ledger struct {
	mu    sync.Mutex
	file  *os.File        // guarded by mu
	lines map[string]bool // guarded by mu: the places of the records that are in it
}

func main() {
	l, err := open(os.Getenv("LEDGER"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
	handler.Serve(handler.Handlers{"meter.reading": handler.Func(l.add)})
}

func open(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l, whole := &ledger{file: f, lines: make(map[string]bool)}, int64(0)
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return l, f.Truncate(whole) // this program died while it wrote the last line
		}
		if err != nil {
			return nil, err
		}
		place, _, _ := strings.Cut(line, " ")
		l.lines[place] = true
		whole += int64(len(line))
	}
}

func (l *ledger) add(_ context.Context, t *task.Task) ([]byte, error) {
	var r reading
	if err := json.Unmarshal(t.Payload, &r); err != nil {
		return nil, task.Permanent(err)
	}
	place := t.Headers[source.HeaderPartition] + "@" + t.Headers[source.HeaderOffset]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[place] {
		return nil, nil
	}
	if _, err := fmt.Fprintln(l.file, place, r.Meter, r.KWh); err != nil {
		return nil, err
	}
	if err := l.file.Sync(); err != nil {
		return nil, err
	}
	l.lines[place] = true
	return nil, nil
}
