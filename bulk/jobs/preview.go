package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// Bounds of a preview.
const (
	previewRead    = 1_000_000        // rows that are read at most
	previewFor     = 10 * time.Second // for how long rows are read at most
	previewPage    = 10_000
	previewKinds   = 20
	previewSamples = 10
	mostKinds      = 10_000
	previewChunk   = 500
	previewWhole   = 2000 // rows that are read with their payloads at most
)

// Preview says which tasks a job would change.
type Preview struct {
	Tasks    int64  // that the filter selects
	Complete bool   // these are all; if not, there were more to read
	Read     int64  // rows that were read at least
	Total    int64  // of how many rows these were, as in [engine.Found]
	Index    string // the field by which an index found the rows, likewise
	States   map[task.State]int64
	Kinds    []Kind       // of their errors, those of most tasks first
	Samples  []*task.Task // the newest of the tasks, without payload and result

	// Left are the tasks that a job cannot undo which it is to undo, by the reason.
	Left map[string]int64

	// TooLarge are the tasks that a job that sets values would change, and that could not be undone, because a payload or headers are too large to be kept.
	// OfFirst is how many tasks were looked at for that.
	TooLarge, OfFirst int64
}

// gone is the reason for tasks that a job has changed, and that are not in a state any more in which that can be undone.
const gone = "it has gone on since, or is gone"

// Kind are the tasks of a preview with an error of one kind.
type Kind struct {
	Kind    task.ErrorKind
	Pattern string // the error without numbers, ids and addresses
	Tasks   int64
	Sample  task.ID // the newest of the tasks
	Error   string  // its error
}

// Preview counts the tasks that a job, which was prepared, would change. It changes nothing.
func (j Jobs) Preview(ctx context.Context, job *bulk.Job) (p Preview, err error) {
	where, err := job.Filter()
	if err != nil {
		return p, err
	}
	begun := time.Now()
	p.Complete, p.States = true, make(map[task.State]int64)
	kinds := make(map[task.ErrorKind]*Kind)
	for before := (task.ID{}); ; {
		found, err := j.engine.Search(ctx, where, before, previewPage)
		if err != nil {
			return p, err
		}
		for _, t := range found.Tasks {
			if job.Selects(t) {
				p.look(job, kinds, t)
			}
		}
		if err := p.size(ctx, j.engine, job, found.Tasks); err != nil {
			return p, err
		}
		p.Read, p.Index, p.Total = p.Read+int64(found.Read), found.Index, max(p.Total, found.Total)
		if before = found.Next; before.IsZero() {
			break
		}
		if p.Read >= previewRead || time.Since(begun) > previewFor {
			p.Complete = false
			break
		}
	}
	if p.Complete {
		p.leave(gone, job.OfChanged-p.Selected())
	}
	for _, k := range kinds {
		p.Kinds = append(p.Kinds, *k)
	}
	slices.SortFunc(p.Kinds, func(a, b Kind) int { return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Kind, b.Kind)) })
	p.Kinds = p.Kinds[:min(len(p.Kinds), previewKinds)]
	for i := range p.Kinds {
		p.Kinds[i].Pattern = task.ErrorPattern(p.Kinds[i].Error)
	}
	return p, nil
}

// size counts the tasks that a job selects among some, and that are too large to be undone.
func (p *Preview) size(ctx context.Context, e *engine.Engine, job *bulk.Job, all []*task.Task) error {
	v := engine.Values{Payload: job.Payload, Headers: job.Headers}
	if job.Verb != bulk.Set || v.Payload == nil && len(v.Headers) == 0 {
		return nil
	}
	some := slices.DeleteFunc(slices.Clone(all), func(t *task.Task) bool { return !job.Selects(t) })
	for some := range slices.Chunk(some, previewChunk) {
		if v.Payload != nil && p.OfFirst+int64(len(some)) > previewWhole {
			return nil
		}
		n, err := e.TooLargeToUndo(ctx, v, some)
		if err != nil {
			return err
		}
		p.TooLarge, p.OfFirst = p.TooLarge+int64(n), p.OfFirst+int64(len(some))
	}
	return nil
}

// Lost returns the tasks that could not be undone, by the reason.
func (p *Preview) Lost() map[string]int64 {
	if p.TooLarge == 0 {
		return nil
	}
	reason := "what it has is too large to be kept"
	if !p.Complete || p.OfFirst < p.Tasks {
		reason = fmt.Sprintf("%s (of the newest %d, others were not looked at)", reason, p.OfFirst)
	}
	return map[string]int64{reason: p.TooLarge}
}

// look counts a task that a job selects.
func (p *Preview) look(job *bulk.Job, kinds map[task.ErrorKind]*Kind, t *task.Task) {
	if job.Verb == bulk.Undo {
		if _, err := t.Undoable(job.Of); err != nil {
			p.leave(err.Error(), 1)
			return
		}
	}
	p.add(kinds, t)
}

// Selected returns how many tasks a job selects, including the tasks that it will not change.
func (p *Preview) Selected() int64 {
	n := p.Tasks
	for _, left := range p.Left {
		n += left
	}
	return n
}

// leave counts tasks that stay as they are.
func (p *Preview) leave(reason string, n int64) {
	if n <= 0 {
		return
	}
	if p.Left == nil {
		p.Left = make(map[string]int64)
	}
	p.Left[reason] += n
}

// add counts a task.
func (p *Preview) add(kinds map[task.ErrorKind]*Kind, t *task.Task) {
	p.Tasks++
	p.States[t.State]++
	if len(p.Samples) < previewSamples {
		p.Samples = append(p.Samples, t)
	}
	if t.LastError == "" {
		return
	}
	of := task.KindOfError(t.LastError)
	k := kinds[of]
	if k == nil {
		if len(kinds) == mostKinds {
			return
		}
		k = &Kind{Kind: of, Sample: t.ID, Error: t.LastError}
		kinds[of] = k
	}
	k.Tasks++
}
