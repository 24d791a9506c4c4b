package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// whyTree prints why a task does not run, and why the tasks do not run that it waits for, each once.
type whyTree struct {
	a       *app
	c       *client
	history bool
	limit   int // how many tasks are printed at most
	seen    map[string]bool
	hidden  int // tasks that were left out, at least
	silent  []*taskenginev1.SilentNode
}

func (w *whyTree) print(ctx context.Context, id string) error {
	if err := w.below(ctx, id, 0); err != nil {
		return aboutTask(id, err)
	}
	if w.hidden > 0 {
		w.a.note("only %d tasks are shown: give a higher --limit, or the ID of a task below", len(w.seen))
	}
	return w.a.partial(w.silent, true)
}

// below prints a task and the tasks that it waits for.
func (w *whyTree) below(ctx context.Context, id string, depth int) error {
	if len(w.seen) >= w.limit {
		w.hidden++
		return nil
	}
	res, err := call(ctx, w.c, w.c.Why, &taskenginev1.WhyRequest{Id: id, History: w.history})
	if depth > 0 && exit.Code(err) == exit.NotFound {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return err
	}
	w.seen[id] = true
	w.silent = append(w.silent, res.GetSilent()...)
	if err := w.one(res, depth); err != nil {
		return err
	}
	for _, next := range waitedFor(res) {
		if w.seen[next] {
			continue
		}
		if err := w.below(ctx, next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *whyTree) one(res *taskenginev1.WhyResponse, depth int) error {
	if w.a.json() {
		return w.a.printMessage(res)
	}
	text := w.a.whyText(res, time.Now())
	if w.history {
		text += historyText(res)
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprint(w.a.stdout, strings.Repeat("    ", depth), line); err != nil {
			return err
		}
	}
	return nil
}

// waitedFor returns the ids of tasks that have to end before the one of an answer runs.
func waitedFor(res *taskenginev1.WhyResponse) (ids []string) {
	for _, r := range res.GetReasons() {
		if r.GetCode() == "children" || r.GetCode() == "after" {
			ids = append(ids, r.GetHolders()...)
		}
		if r.GetHead() != "" {
			ids = append(ids, r.GetHead())
		}
	}
	return ids
}
