package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
)

// liveLimits has the changes of limits by operators that this node knows.
type liveLimits struct {
	logged map[string]uint64 // by scope, the version of a setting that was logged because of its problem; owned by the caller of applyLimits

	mu      sync.Mutex
	view    *limitsView   // guarded by mu; replaced by applyLimits, after the core has the settings
	changed chan struct{} // guarded by mu; closed when view is replaced
}

func newLiveLimits() liveLimits {
	return liveLimits{logged: make(map[string]uint64), view: new(limitsView), changed: make(chan struct{})}
}

// limitsView has the settings of all limits as they were at one moment. It is immutable.
type limitsView struct {
	settings []LimitSetting  // sorted by limit and value
	scopes   []coord.Setting // of settings, in the same order, without their values
	unset    []coord.Setting // removed settings, without values
	version  uint64          // of the newest change
	live     policy.Live     // the meaning of settings
}

// find returns where the setting of a limit and value is kept, or would be, and whether there is one.
func (v *limitsView) find(limit, value string) (at coord.Setting, isSet bool) {
	i, isSet := slices.BinarySearchFunc(v.settings, LimitSetting{Limit: limit, Value: value}, compareLimits)
	if isSet {
		return v.scopes[i], true
	}
	at.Scope = limitScope(limit, value)
	for _, u := range v.unset {
		if u.Scope == at.Scope {
			return u, false
		}
	}
	return at, false
}

func compareLimits(a, b LimitSetting) int {
	return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Value, b.Value))
}

// get returns the settings that hold on this node, and a channel that is closed when others do.
func (l *liveLimits) get() (*limitsView, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view, l.changed
}

// set replaces the settings that hold on this node.
func (l *liveLimits) set(view *limitsView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view = view
	close(l.changed)
	l.changed = make(chan struct{})
}

// reaches waits until this node knows the change with a version.
func (l *liveLimits) reaches(ctx context.Context, version uint64, gone <-chan struct{}) error {
	for {
		view, changed := l.get()
		if view.version >= version {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-gone:
			return ErrClosed
		}
	}
}

// applyLimits passes the settings of limits to the core. One goroutine at a time calls it: the one of
// Open, and then the one that watches the settings.
func (e *Engine) applyLimits(all []coord.Setting) {
	view := e.readLimits(all)
	for i := range view.settings {
		s, at := &view.settings[i], view.scopes[i]
		if s.Problem != "" && e.limits.logged[at.Scope] != at.Version {
			e.limits.logged[at.Scope] = at.Version
			e.log.Warn("a limit was changed, and something is wrong with that on this node", "limit", s.Limit, "value", s.Value, "by", s.By, "problem", s.Problem)
		}
	}
	e.decide(func(c *core.Core, now time.Time) { c.Override(now, view.version, view.live) })
	e.limits.set(view)
}

// readLimits decodes the settings of limits.
func (e *Engine) readLimits(all []coord.Setting) *limitsView {
	type read struct {
		LimitSetting
		at coord.Setting
	}
	var settings []read
	v := new(limitsView)
	for _, at := range all {
		v.version = max(v.version, at.Version)
		s, isSet, err := decodeLimit(at)
		at.Value = nil
		if !isSet && err == nil {
			v.unset = append(v.unset, at)
			continue
		}
		if err == nil {
			err = e.catalog.checkLimit(&s)
		}
		if err != nil {
			s.Problem = err.Error()
		}
		settings = append(settings, read{s, at})
	}
	slices.SortStableFunc(settings, func(a, b read) int { return compareLimits(a.LimitSetting, b.LimitSetting) })
	overrides := make(policy.Overrides)
	for _, s := range settings {
		v.settings, v.scopes = append(v.settings, s.LimitSetting), append(v.scopes, s.at)
		if overrides[s.Limit] == nil {
			overrides[s.Limit] = make(map[string]policy.Override)
		}
		overrides[s.Limit][s.Value] = policy.Override{Max: s.Max, Rate: s.Rate, Paused: s.Paused}
	}
	v.live = overrides.Live()
	return v
}

// limitRecord is how the value of a setting is kept, as JSON. Programs ignore members that they do not
// know.
//
// A setting that is unset stays as a record until something else changes. So the version of the newest
// change never decreases. The coordinator of a limit of the cluster needs that, to distinguish its configured
// maximum from a maximum that was set before.
type limitRecord struct {
	Max    *int        `json:"max,omitempty"`
	Rate   *rateRecord `json:"rate,omitempty"`
	Paused bool        `json:"paused,omitempty"`
	Unset  bool        `json:"unset,omitempty"`
	By     string      `json:"by,omitempty"`
	Node   string      `json:"node,omitempty"`
	At     time.Time   `json:"at"`
}

type rateRecord struct {
	Count int    `json:"count"`
	Per   string `json:"per,omitempty"` // as time.ParseDuration reads it
	Burst int    `json:"burst,omitempty"`
}

func encodeLimit(s *LimitSetting) ([]byte, error) {
	r := limitRecord{Max: s.Max, Paused: s.Paused, Unset: s.changesNothing(), By: s.By, Node: s.Node, At: s.At}
	if s.Rate != nil {
		r.Rate = &rateRecord{Count: s.Rate.Count, Per: s.Rate.Per.String(), Burst: s.Rate.Burst}
	}
	return json.Marshal(r)
}

// decodeLimit returns a setting, and whether it is set: not if it was unset. After an error it
// returns the limit and value.
func decodeLimit(at coord.Setting) (s LimitSetting, isSet bool, err error) {
	s.Limit, s.Value = limitOf(at.Scope)
	s.Version = at.Version
	var r limitRecord
	if err := json.Unmarshal(at.Value, &r); err != nil {
		return s, false, fmt.Errorf("this program cannot read how it was changed, and ignores it: %w", err)
	}
	s.By, s.Node, s.At = r.By, r.Node, r.At
	if r.Unset {
		return s, false, nil
	}
	s.Max, s.Paused = r.Max, r.Paused
	if r.Rate != nil {
		s.Rate = &policy.Rate{Count: r.Rate.Count, Burst: r.Rate.Burst}
		if r.Rate.Per != "" {
			s.Rate.Per, err = time.ParseDuration(r.Rate.Per)
		}
	}
	if err == nil {
		err = checkNumbers(&s)
	}
	if err != nil {
		s.Max, s.Rate, s.Paused = nil, nil, false
		return s, false, fmt.Errorf("this program cannot read how it was changed, and ignores it: %w", err)
	}
	return s, true, nil
}

// limitScope returns the scope in which the setting of a limit, or of one of its values, is kept. It escapes no more than
// it must, because a coordinator may take only short scopes.
func limitScope(limit, value string) string {
	escape := strings.NewReplacer("%", "%25", "/", "%2F").Replace
	if value == "" {
		return escape(limit)
	}
	return escape(limit) + "/" + escape(value)
}

// limitOf is the inverse of limitScope. A part that is not escaped correctly stands for itself.
func limitOf(scope string) (limit, value string) {
	limit, value, _ = strings.Cut(scope, "/")
	for _, part := range []*string{&limit, &value} {
		if text, err := url.PathUnescape(*part); err == nil {
			*part = text
		}
	}
	return limit, value
}
