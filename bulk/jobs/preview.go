package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bulk"
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
)

// Preview says which tasks a job would change.
type Preview struct {
	Tasks    int64 // that the filter selects
	Complete bool  // these are all; if not, there were more to read
	Read     int64 // rows that were read at least
	States   map[task.State]int64
	Kinds    []Kind       // of their errors, those of most tasks first
	Samples  []*task.Task // the newest of the tasks, without payload and result
}

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
			if bulk.Selects(t) {
				p.add(kinds, t)
			}
		}
		p.Read += int64(found.Read)
		if before = found.Next; before.IsZero() {
			break
		}
		if p.Read >= previewRead || time.Since(begun) > previewFor {
			p.Complete = false
			break
		}
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
