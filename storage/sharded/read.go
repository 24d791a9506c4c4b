package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ask asks all databases at once, or the databases of the transaction, and returns the answers by database.
func ask[T any](ctx context.Context, v *verbs, doing string, question func(database int, in storage.Tasks) (T, error)) ([]T, error) {
	if v.tx != nil {
		if err := v.tx.usable(ctx); err != nil {
			return nil, err
		}
	}
	answers, errs := make([]T, len(v.in)), make([]error, len(v.in))
	var databases []int
	for database, in := range v.in {
		if in != nil {
			databases = append(databases, database)
		}
	}
	atOnce(databases, func(database int) {
		answer, err := question(database, v.in[database])
		answers[database], errs[database] = answer, v.store.failed(database, err)
	})
	err := errors.Join(errs...)
	if err == nil {
		return answers, nil
	}
	err = fmt.Errorf("sharded: %s: %w", doing, err)
	if v.tx != nil {
		return nil, v.tx.die(err)
	}
	return nil, err
}

// Due implements [storage.Tasks].
func (v *verbs) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	pages, err := ask(ctx, v, "due", func(database int, in storage.Tasks) ([]storage.Due, error) {
		page, err := in.Due(ctx, q)
		outwardDue(database, page)
		return page, err
	})
	if err != nil {
		return nil, err
	}
	return first(merge(v.store.routes.Load(), pages, refOfDue, compareDue), q.Limit), nil
}

// Ready implements [storage.Tasks].
func (v *verbs) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	pages, err := ask(ctx, v, "ready", func(database int, in storage.Tasks) ([]task.Trigger, error) {
		of := q
		if q.After != nil {
			after := inward(database, *q.After)
			of.After = &after
		}
		page, err := in.Ready(ctx, of)
		outwardTriggers(database, page)
		return page, err
	})
	if err != nil {
		return nil, err
	}
	return first(merge(v.store.routes.Load(), pages, refOfTrigger, compareRank), q.Limit), nil
}

// Queues implements [storage.Tasks].
func (v *verbs) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	pages, err := ask(ctx, v, "queues", func(_ int, in storage.Tasks) ([]task.Queue, error) { return in.Queues(ctx, after, limit) })
	if err != nil {
		return nil, err
	}
	all := slices.Concat(pages...)
	slices.SortFunc(all, compareQueue)
	return first(slices.Compact(all), limit), nil
}

func outwardTriggers(database int, ts []task.Trigger) {
	for i := range ts {
		ts[i].Seq = outward(database, ts[i].Seq)
	}
}

func outwardHints(database int, hs []task.Hint) {
	for i := range hs {
		hs[i].Seq = outward(database, hs[i].Seq)
	}
}

func outwardDue(database int, ds []storage.Due) {
	for i := range ds {
		ds[i].Seq = outward(database, ds[i].Seq)
	}
}
