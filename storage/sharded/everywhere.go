package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Expire implements [storage.Expirer]. If one database fails, the others have removed their rows.
func (s *Store) Expire(ctx context.Context, now time.Time) (removed int64, next time.Time, err error) {
	type swept struct {
		removed int64
		next    time.Time
		err     error
	}
	all, err := ask(ctx, &s.verbs, "sweep", func(database int, _ storage.Tasks) (w swept, _ error) {
		w.removed, w.next, w.err = s.databases[database].Store.Expire(ctx, now)
		w.err = s.failed(database, w.err)
		return w, nil
	})
	for _, w := range all {
		removed += w.removed
		if !w.next.IsZero() && (next.IsZero() || w.next.Before(next)) {
			next = w.next
		}
		err = errors.Join(err, w.err)
	}
	if err != nil {
		err = fmt.Errorf("sharded: sweep: %w", err)
	}
	return removed, next, err
}

// Fold implements [storage.LiveCounter]. If one database fails, the others have folded their notes.
func (s *Store) Fold(ctx context.Context) (notes int64, err error) {
	folded, err := ask(ctx, &s.verbs, "fold counts", func(database int, _ storage.Tasks) (int64, error) {
		return s.databases[database].Store.Fold(ctx)
	})
	for _, n := range folded {
		notes += n
	}
	return notes, err
}

// SetRules implements [storage.Ruled]. It sets them in every database.
func (s *Store) SetRules(ctx context.Context, rules ...storage.TypeRules) error {
	_, err := ask(ctx, &s.verbs, "set the rules of types", func(database int, _ storage.Tasks) (struct{}, error) {
		return struct{}{}, s.databases[database].Store.SetRules(ctx, rules...)
	})
	return err
}

// Rules implements [storage.Ruled].
func (s *Store) Rules(ctx context.Context, typ string) (storage.TypeRules, error) {
	rules, err := s.databases[0].Store.Rules(ctx, typ)
	if err != nil {
		return storage.TypeRules{}, fmt.Errorf("sharded: rules: %w", s.failed(0, err))
	}
	return rules, nil
}

// SetSetting implements [storage.Settings]. It sets it in every database, so that any database can be taken
// out later.
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	_, err := ask(ctx, &s.verbs, "write a setting", func(database int, _ storage.Tasks) (struct{}, error) {
		return struct{}{}, s.databases[database].Store.SetSetting(ctx, name, value)
	})
	return err
}

// SwapSetting implements [storage.Shared]. The first database that has the setting decides. The others
// are set to the same value, so that this database can be taken out later.
func (s *Store) SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error) {
	first, _, err := s.setting(ctx, name)
	if err != nil {
		return false, err
	}
	swapped, err := s.databases[first].Store.SwapSetting(ctx, name, old, value)
	if err != nil {
		return false, fmt.Errorf("sharded: write a setting: %w", s.failed(first, err))
	}
	if !swapped {
		return false, nil
	}
	_, err = ask(ctx, &s.verbs, "write a setting", func(database int, _ storage.Tasks) (struct{}, error) {
		if database == first {
			return struct{}{}, nil
		}
		return struct{}{}, s.databases[database].Store.SetSetting(ctx, name, value)
	})
	return err == nil, err
}

// Setting implements [storage.Settings]. A database does not have the settings that were set before it
// was added.
func (s *Store) Setting(ctx context.Context, name string) ([]byte, error) {
	_, value, err := s.setting(ctx, name)
	return value, err
}

// SettingCopies implements [storage.Replicated].
func (s *Store) SettingCopies(ctx context.Context, name string) ([][]byte, error) {
	return ask(ctx, &s.verbs, "read a setting", func(database int, _ storage.Tasks) ([]byte, error) {
		return s.databases[database].Store.Setting(ctx, name)
	})
}

// SwapSettingCopies implements [storage.Replicated].
func (s *Store) SwapSettingCopies(ctx context.Context, name string, old, value []byte) error {
	_, err := ask(ctx, &s.verbs, "write a setting", func(database int, _ storage.Tasks) (bool, error) {
		return s.databases[database].Store.SwapSetting(ctx, name, old, value)
	})
	return err
}

// setting returns a setting and the first database that has it; that is 0 if none has.
func (s *Store) setting(ctx context.Context, name string) (first int, value []byte, err error) {
	for i, p := range s.databases {
		value, err := p.Store.Setting(ctx, name)
		if err != nil {
			return 0, nil, fmt.Errorf("sharded: read a setting: %w", s.failed(i, err))
		}
		if value != nil {
			return i, value, nil
		}
	}
	return 0, nil, nil
}

// Blockers implements [storage.Locker].
func (s *Store) Blockers(ctx context.Context) ([]storage.Blocker, error) {
	found, err := ask(ctx, &s.verbs, "look for sessions that hold locks", func(database int, _ storage.Tasks) ([]storage.Blocker, error) {
		in, ok := s.databases[database].Store.(storage.Locker)
		if !ok {
			return nil, nil
		}
		all, err := in.Blockers(ctx)
		for i := range all {
			all[i].Database = s.databases[database].Name
		}
		return all, err
	})
	return slices.Concat(found...), err
}

var _ storage.Locker = (*Store)(nil)

// Identify implements [storage.Identified].
func (s *Store) Identify(node task.ID) (release func()) {
	var all []func()
	for _, p := range s.databases {
		if in, ok := p.Store.(storage.Identified); ok {
			all = append(all, in.Identify(node))
		}
	}
	return func() {
		for _, release := range all {
			release()
		}
	}
}

// Silent implements [storage.Identified]. Of a database that does not answer it returns no nodes.
func (s *Store) Silent(ctx context.Context, least time.Duration) (nodes []task.ID, err error) {
	found, err := ask(ctx, &s.verbs, "look for sessions of nodes that are gone", func(database int, _ storage.Tasks) ([]task.ID, error) {
		in, ok := s.databases[database].Store.(storage.Identified)
		if !ok {
			return nil, nil
		}
		return in.Silent(ctx, least)
	})
	for _, some := range found {
		for _, id := range some {
			if !slices.Contains(nodes, id) {
				nodes = append(nodes, id)
			}
		}
	}
	return nodes, err
}

// End implements [storage.Identified].
func (s *Store) End(ctx context.Context, least time.Duration, nodes ...task.ID) (ended int, err error) {
	all, err := ask(ctx, &s.verbs, "end sessions of nodes that are gone", func(database int, _ storage.Tasks) (int, error) {
		in, ok := s.databases[database].Store.(storage.Identified)
		if !ok {
			return 0, nil
		}
		return in.End(ctx, least, nodes...)
	})
	for _, n := range all {
		ended += n
	}
	return ended, err
}

var _ storage.Identified = (*Store)(nil)
