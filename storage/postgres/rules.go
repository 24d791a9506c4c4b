package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
)

var _ storage.Ruled = (*Store)(nil)

// SetRules implements [storage.Ruled].
func (s *Store) SetRules(ctx context.Context, rules ...storage.TypeRules) error {
	keyed, unique := make([]string, len(rules)), make([]string, len(rules))
	for i, r := range rules {
		text, err := json.Marshal(append([]storage.Keyed{}, r.Keyed...))
		if err != nil {
			return fmt.Errorf("postgres: set the rules of type %s: %w", r.Type, err)
		}
		keyed[i] = string(text)
		if text, err = json.Marshal(r.Unique); err != nil {
			return fmt.Errorf("postgres: set the rules of type %s: %w", r.Type, err)
		}
		unique[i] = string(text)
	}
	args := []any{
		texts(rules, func(r storage.TypeRules) string { return r.Type }),
		integers(rules, func(r storage.TypeRules) int32 { return int32(r.Priority) }),
		bigints(rules, func(r storage.TypeRules) int64 { return int64(r.MaxPayload) }),
		bigints(rules, func(r storage.TypeRules) int64 { return r.QueueTimeout.Microseconds() }),
		bigints(rules, func(r storage.TypeRules) int64 { return r.TotalTimeout.Microseconds() }), keyed,
		unique, bigints(rules, func(r storage.TypeRules) int64 { return int64(r.MaxResult) }),
		bigints(rules, func(r storage.TypeRules) int64 { return keepOf(r.KeepDone) }),
		bigints(rules, func(r storage.TypeRules) int64 { return roundedUp(r.MaxLateness) }),
		bigints(rules, func(r storage.TypeRules) int64 { return roundedUp(r.Remember) }),
		booleans(rules, func(r storage.TypeRules) bool { return r.Inherits }), booleans(rules, func(r storage.TypeRules) bool { return r.Searched }),
	}
	defer s.makeFirst(rules)
	return s.again(ctx, "set the rules of types", func() error {
		_, err := s.pool.Exec(ctx, s.sql.setRules, args...)
		return err
	})
}

// makeFirst makes the tables for tasks of types that are done from now on.
func (s *Store) makeFirst(rules []storage.TypeRules) {
	for _, r := range rules {
		class := ended.Class{}
		if r.KeepDone > 0 {
			class.Keep = ended.Keep(r.KeepDone)
		}
		if p := class.Partition(time.Now().UnixMicro()); r.KeepDone != 0 && !s.partitions.knows(p) {
			s.partitions.ask(p)
		}
	}
}

// keepOf returns a retention time as the table type_policy has it: in microseconds, -1 for ever.
func keepOf(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return roundedUp(d) // 0 only if the task is not kept at all
}

// roundedUp returns a duration in microseconds, 0 only for 0.
func roundedUp(d time.Duration) int64 {
	return int64(d/time.Microsecond) + int64(min(d%time.Microsecond, 1))
}

// Rules implements [storage.Ruled].
func (s *Store) Rules(ctx context.Context, typ string) (r storage.TypeRules, err error) {
	var name, keyed, unique []byte
	var priority int16
	var most, queue, total, result, keep, late, remember int64
	err = s.again(ctx, "read the rules of a type", func() error {
		return s.pool.QueryRow(ctx, s.sql.rules, []byte(typ)).Scan(
			&name, &priority, &most, &queue, &total, &keyed, &unique, &result, &keep, &late, &remember, &r.Inherits, &r.Searched)
	})
	if err != nil {
		return r, err
	}
	r = storage.TypeRules{
		Type: string(name), Inherits: r.Inherits, Searched: r.Searched, Priority: uint8(priority), MaxPayload: int(most),
		QueueTimeout: time.Duration(queue) * time.Microsecond, TotalTimeout: time.Duration(total) * time.Microsecond,
		MaxResult: int(result), KeepDone: time.Duration(max(keep, 0)) * time.Microsecond,
		MaxLateness: time.Duration(late) * time.Microsecond, Remember: time.Duration(remember) * time.Microsecond,
	}
	if keep < 0 {
		r.KeepDone = -1
	}
	if err := json.Unmarshal(keyed, &r.Keyed); err != nil {
		return r, fmt.Errorf("postgres: the rules of type %s: %w", typ, err)
	}
	if err := json.Unmarshal(unique, &r.Unique); err != nil {
		return r, fmt.Errorf("postgres: the rules of type %s: %w", typ, err)
	}
	if len(r.Keyed) == 0 {
		r.Keyed = nil
	}
	return r, nil
}
