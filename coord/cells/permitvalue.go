package cells

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/task"
)

// permits is the value of a cell about the permits of some limits. The cell stays when no permits are held or wanted,
// so that fences never start again.
type permits struct {
	Fence  uint64                       // of the latest grant
	Limits map[string]*limits.Semaphore // by the name that stands for that of the limit
}

// permitsValue is the value of a cell of permits. It names each holder once, because a cell has many standings of few
// holders.
type permitsValue struct {
	Fence   uint64                `json:"fence"`
	Holders []task.ID             `json:"holders,omitempty"`
	Limits  map[string]limitValue `json:"limits,omitempty"`
}

type limitValue struct {
	Max       int             `json:"max"`
	Version   uint64          `json:"version,omitempty"`
	Standings []standingValue `json:"standings"`
}

// standingValue is the index of the holder and its standing: held, want, least, fence, and since in microseconds since
// 1970.
type standingValue [6]int64

// parsePermits decodes the value of a cell.
func parsePermits(c Cell) (*permits, error) {
	p := &permits{Limits: map[string]*limits.Semaphore{}}
	if !c.Exists() {
		return p, nil
	}
	var v permitsValue
	if err := json.Unmarshal(c.Value, &v); err != nil {
		return nil, fmt.Errorf("cell %s has no permits: %w", c.Key, err)
	}
	p.Fence = v.Fence
	for name, l := range v.Limits {
		s := &limits.Semaphore{Max: l.Max, Version: l.Version, Standings: make([]limits.Standing, len(l.Standings))}
		for i, st := range l.Standings {
			if st[0] < 0 || st[0] >= int64(len(v.Holders)) {
				return nil, fmt.Errorf("cell %s has no permits: a standing of limit %q has no holder", c.Key, name)
			}
			s.Standings[i] = limits.Standing{
				Holder: v.Holders[st[0]], Held: int(st[1]), Want: int(st[2]), Least: int(st[3]), Fence: uint64(st[4]), Since: time.UnixMicro(st[5]),
			}
		}
		p.Limits[name] = s
	}
	return p, nil
}

// value returns the value of the cell.
func (p *permits) value() []byte {
	v := permitsValue{Fence: p.Fence, Limits: make(map[string]limitValue, len(p.Limits))}
	index := map[task.ID]int64{}
	for _, name := range slices.Sorted(maps.Keys(p.Limits)) {
		s := p.Limits[name]
		l := limitValue{Max: s.Max, Version: s.Version, Standings: make([]standingValue, len(s.Standings))}
		for i, st := range s.Standings {
			at, ok := index[st.Holder]
			if !ok {
				at = int64(len(v.Holders))
				index[st.Holder] = at
				v.Holders = append(v.Holders, st.Holder)
			}
			l.Standings[i] = standingValue{at, int64(st.Held), int64(st.Want), int64(st.Least), int64(st.Fence), st.Since.UnixMicro()}
		}
		v.Limits[name] = l
	}
	value, _ := json.Marshal(v) // text and numbers can be marshalled
	return value
}

// clone returns a copy that shares no memory with p.
func (p *permits) clone() *permits {
	next := &permits{Fence: p.Fence, Limits: make(map[string]*limits.Semaphore, len(p.Limits))}
	for name, s := range p.Limits {
		c := *s
		c.Standings = slices.Clone(s.Standings)
		next.Limits[name] = &c
	}
	return next
}

// standing returns the standing of a holder at a limit, and nil if it has and wants nothing.
func (p *permits) standing(limit string, holder task.ID) (*limits.Semaphore, *limits.Standing) {
	if p == nil || p.Limits[limit] == nil {
		return nil, nil
	}
	s := p.Limits[limit]
	return s, s.Find(holder)
}

func (p *permits) has(id task.ID) bool {
	for _, s := range p.Limits {
		if s.Find(id) != nil {
			return true
		}
	}
	return false
}
