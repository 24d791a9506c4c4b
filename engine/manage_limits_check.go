package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/policy"
)

// checkLimit returns what is wrong with a setting.
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
	l, ok := c.policies.Limits[name]
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
	case len(c.policies.Limits) == 0:
		return "none is configured"
	}
	return suggest.Advice(name, slices.Sorted(maps.Keys(c.policies.Limits)))
}

// heaviest is a type with the heaviest tasks of those that count for a limit.
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

// checkNumbers returns what is wrong with a setting, whatever its limit is.
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
