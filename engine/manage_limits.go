package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/policy"
)

// Errors of the methods that change limits. [ErrInvalid] and [ErrStale] are others.
var (
	// ErrNoLimit says that no limit of this name is configured on this node.
	ErrNoLimit = errors.New("there is no such limit")
	// ErrNotSet says that no operator has changed the limit.
	ErrNotSet = errors.New("the limit is as it is configured")
)

// MaxLimitSettings is how many limits and values of limits can be changed at a time. More of them can be paused.
const MaxLimitSettings = 10_000

// maxBy is how many bytes [LimitSetting].By may have.
const maxBy = 200

// LimitSetting says how a person has changed a limit of the configuration. It holds on all nodes, and
// until it is unset.
type LimitSetting struct {
	Limit string // its name
	// Value is the value for which the setting is, of a limit with [policy.Limit].Per. One that ends in
	// an asterisk, such as acme-*, is for all values that begin with the rest. It is "" for the limit as
	// a whole: such a setting holds for values without a more particular one.
	Value string

	Max    *int         // replaces the number of slots; 0 is no limit; nil keeps the configured one
	Rate   *policy.Rate // replaces the rate; the zero Rate is no limit; nil keeps the configured one
	Paused bool         // no task that counts for the limit is started

	Version uint64    // grows with every change of any limit; 0: the limit, or the value, is not changed
	By      string    // who changed it, as the caller said; at most 200 bytes
	Node    string    // the name of the node that made the change
	At      time.Time // when, see Engine.Now

	// Problem describes a problem of the setting on this node: the limit is not
	// configured, a task would never fit, or a newer program wrote a setting that this one cannot read. It is ""
	// if there is none.
	Problem string
}

// changesNothing reports whether the limit is with s as it is without it.
func (s *LimitSetting) changesNothing() bool { return s.Max == nil && s.Rate == nil && !s.Paused }

// LimitSettings returns how limits were changed, sorted by limit and value.
func (e *Engine) LimitSettings(ctx context.Context) ([]LimitSetting, error) {
	all, err := e.cluster.Limits(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return e.readLimits(all).settings, nil
}

// SetLimit changes a limit, or one of its values, on all nodes, until [Engine.UnsetLimit]. It replaces
// an earlier setting of the same limit and value as a whole; one that changes nothing is removed. If
// onlyIf is not nil, SetLimit changes the setting only if it has that version (0: there is none), and
// returns [ErrStale] otherwise. Version, At, Node and Problem of s are ignored.
//
// When SetLimit returns, the change is durable and holds on this node. Other nodes follow as soon as
// they hear of it, see [Config].Coordinator. Tasks that run go on, also above a lower limit. It returns the
// setting; its Version is 0 if there is none now. After any error but [ErrInvalid], [ErrStale] and
// [ErrClosed] the change may have been made.
func (e *Engine) SetLimit(ctx context.Context, s LimitSetting, onlyIf *uint64) (LimitSetting, error) {
	if err := e.catalog.checkLimit(&s); err != nil {
		return LimitSetting{}, invalid(err)
	}
	return e.changeLimit(ctx, s, onlyIf)
}

// UnsetLimit removes the setting of a limit, or of one of its values, so that the limit is again as it
// is configured. If nothing is set, it returns [ErrNotSet]. onlyIf and errors are as of
// [Engine.SetLimit]. The limit need not be configured.
func (e *Engine) UnsetLimit(ctx context.Context, limit, value string, onlyIf *uint64) error {
	_, err := e.changeLimit(ctx, LimitSetting{Limit: limit, Value: value}, onlyIf)
	return err
}

// invalid returns the error of a request with something wrong about a limit.
func invalid(err error) error { return fmt.Errorf("%w: %w", ErrInvalid, err) }

// changeLimit stores s, or removes the setting if s changes nothing.
func (e *Engine) changeLimit(ctx context.Context, s LimitSetting, onlyIf *uint64) (LimitSetting, error) {
	if e.isClosing() {
		return LimitSetting{}, ErrClosed
	}
	s.Problem, s.Version = "", 0
	s.Node, s.At = e.config.Name, e.Now().UTC().Truncate(time.Microsecond)
	value, err := encodeLimit(&s)
	if err != nil {
		return LimitSetting{}, fmt.Errorf("engine: %w", err)
	}
	for range editTries {
		all, err := e.cluster.Limits(ctx)
		if err != nil {
			return LimitSetting{}, fmt.Errorf("engine: %w", err)
		}
		view := e.readLimits(all)
		was, isSet := view.find(s.Limit, s.Value)
		if err := mayChange(was, isSet, &s, onlyIf); err != nil {
			return LimitSetting{}, err
		}
		if !isSet && !s.Paused && len(view.settings) >= MaxLimitSettings {
			return LimitSetting{}, fmt.Errorf("%w: %d limits and values of limits are changed already, and at most %d can be, unless they are paused; unset some, or change the configuration",
				ErrInvalid, len(view.settings), MaxLimitSettings)
		}
		now, swapped, err := e.cluster.SwapLimit(ctx, was.Scope, was.Version, value)
		if err != nil {
			return LimitSetting{}, fmt.Errorf("engine: %w", err)
		}
		if swapped {
			return e.limitChanged(ctx, s, now.Version, view)
		}
	}
	return LimitSetting{}, fmt.Errorf("engine: change the limit %s: %w, %d times in a row", s.Limit, errStaleLimit("its setting has changed"), editTries)
}

// limitChanged returns the setting that was stored with a version, when this node applies it. view has the
// settings before.
func (e *Engine) limitChanged(ctx context.Context, s LimitSetting, version uint64, view *limitsView) (LimitSetting, error) {
	// Of the removed overrides only the newest is needed: see limitRecord.
	for _, old := range view.unset {
		_, _, _ = e.cluster.SwapLimit(ctx, old.Scope, old.Version, nil)
	}
	if err := e.limits.reaches(ctx, version, e.gone); err != nil {
		return LimitSetting{}, fmt.Errorf("engine: the change of the limit %s is stored, but this node has not learned of it: %w", s.Limit, err)
	}
	if s.changesNothing() {
		return LimitSetting{Limit: s.Limit, Value: s.Value}, nil
	}
	s.Version = version
	return s, nil
}

// mayChange returns an error if a setting must not be replaced by s.
func mayChange(was coord.Setting, isSet bool, s *LimitSetting, onlyIf *uint64) error {
	version := was.Version
	if !isSet {
		version = 0
	}
	switch {
	case onlyIf != nil && *onlyIf != version && version == 0:
		return errStaleLimit(fmt.Sprintf("%s is not set any more, and was at version %d", limitText(s), *onlyIf))
	case onlyIf != nil && *onlyIf != version:
		return errStaleLimit(fmt.Sprintf("the setting of %s is at version %d, not %d", limitText(s), version, *onlyIf))
	case !isSet && s.changesNothing():
		return fmt.Errorf("%w: %s", ErrNotSet, limitText(s))
	}
	return nil
}

// limitText names a limit and its value for display.
func limitText(s *LimitSetting) string {
	if s.Value == "" {
		return "limit " + s.Limit
	}
	return "limit " + s.Limit + " for " + s.Value
}

// errStaleLimit is an [ErrStale] of a setting.
type errStaleLimit string

func (e errStaleLimit) Error() string { return string(e) }

// Is reports whether target is [ErrStale].
func (errStaleLimit) Is(target error) bool { return target == ErrStale }

// WatchLimits calls fn with the settings of limits that hold on this node, sorted by limit and value,
// at once, also if ctx has ended, and after every change, one call at a time, until ctx ends; then it returns nil. It returns
// [ErrClosed] when the engine has closed. fn may keep the slice, and must not change what it points
// to.
func (e *Engine) WatchLimits(ctx context.Context, fn func([]LimitSetting)) error {
	for {
		view, changed := e.limits.get()
		fn(slices.Clone(view.settings))
		select {
		case <-changed:
		case <-ctx.Done():
		case <-e.gone:
			return ErrClosed
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// checkLimit returns an error if a setting is invalid.
func (c *catalog) checkLimit(s *LimitSetting) error {
	l, err := c.limit(s.Limit, s.Value)
	if err != nil {
		return err
	}
	if err := checkNumbers(s); err != nil {
		return err
	}
	if s.Max == nil || *s.Max == 0 {
		return nil
	}
	if h := c.heaviest[l.Name]; *s.Max < h.weight {
		return fmt.Errorf("max is %d, and tasks of type %s weigh %d: they would never be started; the least is %d, and to start none, pause the limit", *s.Max, h.typ, h.weight, h.weight)
	}
	return nil
}

// limit returns a limit that is configured and may have a setting for a value.
func (c *catalog) limit(name, value string) (policy.Limit, error) {
	l, ok := c.policies().Limits[name]
	switch {
	case !ok:
		return l, fmt.Errorf("%w: %.80q; %s", ErrNoLimit, name, c.otherLimits(name))
	case value == "":
		return l, nil
	case l.Per == "":
		return l, fmt.Errorf("limit %s has no values, as it has no `per`: there is one limit for all its tasks", name)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return l, fmt.Errorf("value %.80q of limit %s is not UTF-8 text without NUL", value, name)
	case len(value) > MaxGroup:
		return l, fmt.Errorf("the value of limit %s has %d bytes, of %d allowed", name, len(value), MaxGroup)
	}
	if err := policy.CheckOverride(value); err != nil {
		return l, fmt.Errorf("value %.80q of limit %s: %w", value, name, err)
	}
	return l, nil
}

// otherLimits says which limits there are, for the name of one that there is not.
func (c *catalog) otherLimits(name string) string {
	switch {
	case strings.HasPrefix(name, "types."):
		return "the concurrency of a type is changed in the configuration only"
	case len(c.policies().Limits) == 0:
		return "none is configured"
	}
	return suggest.Advice(name, slices.Sorted(maps.Keys(c.policies().Limits)))
}

// heaviest is a type with the heaviest tasks that count for a limit.
type heaviest struct {
	typ    string
	weight int
}

// heaviestOf returns the heaviest tasks of each limit for which tasks count.
func heaviestOf(set policy.Set) map[string]heaviest {
	of := make(map[string]heaviest)
	for _, name := range slices.Sorted(maps.Keys(set.Types)) {
		p := set.Types[name]
		for _, first := range p.Limits {
			for _, l := range set.Chain(first) {
				if p.Weight > of[l.Name].weight {
					of[l.Name] = heaviest{name, p.Weight}
				}
			}
		}
	}
	return of
}

// checkNumbers returns an error if a setting is invalid for every limit.
func checkNumbers(s *LimitSetting) error {
	if s.Max != nil && (*s.Max < 0 || *s.Max > math.MaxInt32) {
		return fmt.Errorf("max is %d; want 0 (no limit) to %d", *s.Max, math.MaxInt32)
	}
	if r := s.Rate; r != nil {
		switch {
		case r.Count < 0 || r.Count > math.MaxInt32:
			return fmt.Errorf("the rate has %d starts; want 0 (no limit) to %d", r.Count, math.MaxInt32)
		case r.Burst < 0 || r.Burst > math.MaxInt32:
			return fmt.Errorf("the burst of the rate is %d; want 0 (as many as the rate has in its time) to %d", r.Burst, math.MaxInt32)
		case r.Count > 0 && r.Per <= 0:
			return errors.New("the rate needs a time, such as 20/1s")
		case r.Count == 0 && (r.Per != 0 || r.Burst != 0):
			return errors.New("the rate has no starts, but a time or a burst; want the zero rate for no limit")
		}
	}
	if len(s.By) > maxBy || !printable(s.By) {
		return fmt.Errorf("the name of the author of the change has %d bytes; want at most %d printable ones", len(s.By), maxBy)
	}
	return nil
}
