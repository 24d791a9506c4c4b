package slicer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// Row is a platform as a list of platforms has it.
type Row struct {
	Name      string
	Values    map[string]string // values of the platform, as texts by their names; an empty text unsets a value
	Replace   bool              // values of the platform that are not in Values are unset
	Removed   bool              // the platform makes no slices; otherwise it is added if there is none, or if it was removed
	IfVersion *uint64           // the version that the platform must have, 0 if there must be none; nil: any
}

// Outcome is the effect of a [Row] on its platform.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated" // its values have changed, or it was added again
	Removed   Outcome = "removed"
	Unchanged Outcome = "unchanged"
)

// Applied is the outcome of a row.
type Applied struct {
	Name    string
	Outcome Outcome // "" if the row was not applied
	Version uint64  // of the platform then; 0 if there is none, or the row was not applied
	Err     error   // why it was not applied
}

// ApplyRows makes the platforms of a source those of rows; other platforms stay as they are. If a row cannot be, nothing is changed, and the error is
// [timeslice.ErrInvalid]. Otherwise each row is applied by itself, and one that its platform refuses has an error in its result. A row that its
// platform is like already changes nothing, whatever the version is: it may be repeated. With isDry it changes nothing, and returns
// the outcomes that rows would have.
func (s *Sources) ApplyRows(ctx context.Context, e *engine.Engine, source string, rows []Row, isDry bool, by By) ([]Applied, error) {
	of, err := s.Source(ctx, e, source)
	if err != nil {
		return nil, err
	}
	state, now, err := of.State.Obey(), make([]*Status, len(rows)), checkNames(rows)
	if err != nil {
		return nil, err
	}
	all := make([]Applied, len(rows))
	for _, do := range []func(context.Context, int) error{
		func(ctx context.Context, i int) (err error) { // nothing is changed before all rows are checked
			p := timeslice.Platform{Source: source, Name: rows[i].Name}
			if now[i], err = s.stored(ctx, e, p); err != nil {
				return err
			}
			var before timeslice.State
			if now[i] != nil {
				before = now[i].State
			}
			if all[i], _, err = rows[i].plan(&before, &state, by); errors.Is(err, timeslice.ErrInvalid) {
				return err
			}
			if err = cmp.Or(s.here(p), err); err != nil {
				all[i] = refused(p, err)
			}
			return nil
		},
		func(ctx context.Context, i int) error {
			if !isDry && all[i].Err == nil && all[i].Outcome != Unchanged {
				all[i] = applyRow(ctx, e, timeslice.Platform{Source: source, Name: rows[i].Name}, &rows[i], &state, now[i] == nil, by)
			}
			return context.Cause(ctx)
		},
	} {
		err := inParallel(ctx, func(run func(func(context.Context) error) error) error {
			for i := range rows {
				if err := run(func(ctx context.Context) error { return do(ctx, i) }); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func checkNames(rows []Row) error {
	seen := make(map[string]bool, len(rows))
	for i := range rows {
		r := &rows[i]
		if err := timeslice.CheckName(r.Name); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
		if seen[r.Name] {
			return fmt.Errorf("%w: row %d: there is another row of %s", timeslice.ErrInvalid, i+1, r.Name)
		}
		if seen[r.Name] = true; r.Removed && len(r.Values) > 0 {
			return fmt.Errorf("%w: row %d: %s is to be removed, and has values", timeslice.ErrInvalid, i+1, r.Name)
		}
	}
	return nil
}

// stored returns a platform as it is stored; nil if there is none.
func (s *Sources) stored(ctx context.Context, e *engine.Engine, p timeslice.Platform) (*Status, error) {
	t, err := e.Get(ctx, p.Cursor())
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, named("read", p.String(), err)
	}
	return statusOf(t)
}

// plan returns the outcome of a row for a platform with a state, and the orders of by that the platform gets for it.
func (r *Row) plan(s *timeslice.State, of *timeslice.SourceState, by By) (Applied, []timeslice.Order, error) {
	outcome, orders, err := r.orders(s, of, by)
	if err != nil {
		return Applied{}, nil, err
	}
	after := *s
	after.Orders = slices.Clone(s.Orders)
	after.Give(orders...)
	return Applied{Name: r.Name, Outcome: outcome, Version: after.Version}, orders, nil
}

// applyRow applies a row to its platform.
func applyRow(ctx context.Context, e *engine.Engine, p timeslice.Platform, r *Row, of *timeslice.SourceState, isNew bool, by By) (done Applied) {
	if isNew {
		if err := add(ctx, e, p); err != nil {
			return refused(p, err)
		}
	}
	err := change(ctx, e, p.Cursor(), func(_ timeslice.Platform, s *timeslice.State) (orders []timeslice.Order, err error) {
		if done, orders, err = r.plan(s, of, by); err != nil {
			return nil, err
		}
		for i := range orders {
			if err := setThreads(ctx, e, p.Source, p.String(), orders[i].Set, by); err != nil {
				return nil, err
			}
		}
		return orders, nil
	})
	if err != nil {
		return refused(p, err)
	}
	return done
}

func refused(p timeslice.Platform, err error) Applied {
	return Applied{Name: p.Name, Err: named("apply", p.String(), err)}
}

// orders returns the orders that make a platform with a state that of the row, of which a new platform has a state without a version.
func (r *Row) orders(s *timeslice.State, of *timeslice.SourceState, by By) (Outcome, []timeslice.Order, error) {
	isNew, isRemoved := s.Version == 0, s.WillBeRemoved()
	var orders []timeslice.Order
	outcome := Unchanged
	switch {
	case r.Removed && (isNew || isRemoved):
	case r.Removed:
		outcome, orders = Removed, []timeslice.Order{{Remove: true, By: by.Who, Reason: by.Reason}}
	default:
		layers, values := s.Pending(), of.For(r.Name)
		if isNew {
			layers.File, layers.Live, layers.FileOwn, layers.Platforms = values.File, values.Live, values.FileOwn, values.Platforms
		}
		differ, err := r.values(&layers)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		if isNew || isRemoved {
			outcome, orders = Updated, []timeslice.Order{{Source: &values}, {Add: true, By: by.Who, Reason: by.Reason}}
		}
		if len(differ) > 0 {
			outcome, orders = Updated, append(orders, timeslice.Order{Set: differ, By: by.Who, Reason: by.Reason})
		}
		if _, wrong := layers.Settings(); wrong != nil && (isNew || len(differ) > 0) { // one that was removed goes on with its last ones
			return "", nil, fmt.Errorf("%w: %s: %w", timeslice.ErrInvalid, r.Name, wrong)
		}
		if isNew {
			outcome = Created
		}
	}
	if v := r.IfVersion; v != nil && *v != s.Version && outcome != Unchanged {
		return "", nil, fmt.Errorf("%w: it has the version %d, and not %d", ErrVersion, s.Version, *v)
	}
	return outcome, orders, nil
}

// values sets the values of the row in layers, and returns those that are others then, or the empty text for those that are unset.
func (r *Row) values(layers *timeslice.Layers) (differ map[string]string, err error) {
	before := layers.Own.All()
	if r.Replace {
		layers.Own = timeslice.Values{}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		if err := layers.Own.Set(name, r.Values[name]); err != nil {
			return nil, err
		}
	}
	differ = make(map[string]string)
	after := layers.Own.All()
	for name := range before {
		if _, ok := after[name]; !ok {
			differ[name] = ""
		}
	}
	for name, text := range after {
		if was, ok := before[name]; !ok || was != text {
			differ[name] = text
		}
	}
	return differ, nil
}
