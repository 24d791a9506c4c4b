package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// talk is a handler of a plugin: it logs, waits for the gate, and logs again. In its first
// attempt it also prints, and fails.
func (g gate) talk(ctx context.Context, t *task.Task) ([]byte, error) {
	task.Logger(ctx).Warn("began", "page", 1<<60, "by", "talk\x1b")
	if t.Attempt == 1 {
		fmt.Fprintln(os.Stderr, "printed")
	}
	for {
		if _, err := os.Stat(string(g)); err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		time.Sleep(time.Millisecond)
	}
	task.Logger(ctx).Info("ends")
	if t.Attempt == 1 {
		return nil, errors.New("not at once")
	}
	return nil, nil
}

// scan is a handler that reports its progress, keeps a checkpoint, and fails once the gate
// is open. The next attempt returns the checkpoint of the first one.
func (g gate) scan(ctx context.Context, t *task.Task) ([]byte, error) {
	if kept := t.Checkpoint(); kept != nil {
		return kept, nil
	}
	task.ReportProgress(ctx, 30, 100, "pages")
	if err := task.SaveCheckpoint(ctx, []byte(`"page 30"`)); err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(string(g)); err == nil {
			return nil, errors.New("the scanner is out of paper")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// stamper is the file in which the handler notes when tasks begin.
type stamper string

// stamp notes that a task begins.
func (s stamper) stamp(_ context.Context, t *task.Task) ([]byte, error) {
	f, err := os.OpenFile(string(s), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f, "%s %s %d\n", t.Type, t.ID, time.Now().UnixNano()); err != nil {
		return nil, err
	}
	if _, err := os.Stat(os.Getenv("GATE")); err != nil && t.Type == "bulk" {
		time.Sleep(10 * time.Millisecond)
	}
	return nil, f.Close()
}

func (s stamper) read(t *testing.T) (all []beginning) {
	t.Helper()
	f, err := os.Open(string(s))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		nanos, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, beginning{words[0], words[1], time.Unix(0, nanos)})
	}
	return all
}

// loadHandler returns a handler that appends to a file when a task was to be added, which is its payload, and for how long after that it begins.
func loadHandler(notes string) (handler.Func, error) {
	f, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, t *task.Task) ([]byte, error) {
		at, err := strconv.ParseInt(string(t.Payload), 10, 64)
		if err != nil {
			return nil, task.Permanent(err)
		}
		note := binary.BigEndian.AppendUint64(nil, uint64(at))
		_, err = f.Write(binary.BigEndian.AppendUint64(note, uint64(time.Now().UnixNano()-at)))
		return nil, err
	}, nil
}

// ledger is the URL of a database, in which a handler writes one row for each step of its task, in the transaction
// that ends the attempt.
type ledger string

// handle does one step of a task. The payload is the number of steps that are left. handle makes a mistake that its id and its
// version choose: the same task makes all of them in the course of its life.
func (l ledger) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	var left int
	if err := json.Unmarshal(t.Payload, &left); err != nil {
		return nil, task.Permanent(err)
	}
	mistake := (uint64(t.ID[15]) + t.Version/2) % 8
	if mistake == 0 {
		os.Exit(1)
	}
	err := l.step(ctx, t, left, mistake == 1)
	switch {
	case mistake == 1 && errors.Is(err, errMade): // rolled back, and the handler does not know
		return nil, task.Ended()
	case err != nil:
		return nil, err
	}
	switch mistake {
	case 2, 3: // it dies between the commit and its answer
		os.Exit(1)
	case 4:
		return nil, errMade
	case 5:
		return []byte("another result"), nil
	case 6:
		return nil, task.Again(time.Now(), task.WithPayload([]byte("7")))
	}
	return nil, task.Ended()
}

func (l ledger) step(ctx context.Context, t *task.Task, left int, fails bool) error {
	c, err := pgx.Connect(ctx, string(l))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into ledger values ($1, $2)", t.ID.String(), left); err != nil {
			return err
		}
		if left > 1 {
			_, err = tx.Exec(ctx, "select taskengine.again($1, $2, now(), payload => to_jsonb($3::int), result => to_jsonb($4::text))", t.ID.String(), int64(t.Version), left-1, fmt.Sprint(left))
		} else {
			_, err = tx.Exec(ctx, "select taskengine.finish($1, $2, to_jsonb($3::text))", t.ID.String(), int64(t.Version), "all")
		}
		if err == nil && fails {
			err = errMade
		}
		return err
	})
}

// beginning is when a task has begun.
type beginning struct {
	typ, id string
	at      time.Time
}

// errMade is an error that the handler makes.
var errMade = errors.New("made")
