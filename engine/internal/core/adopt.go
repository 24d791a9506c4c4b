package core

import (
	"time"

	"github.com/taskengine/taskengine/policy"
)

// Adopt replaces the policies by others, which differ in values that [policy.Set.Adopt] takes over. Tasks that have a slot keep the values of
// their type, and the limits hold for tasks that begin from now on.
func (c *Core) Adopt(now time.Time, set policy.Set) {
	c.config.Policies = set
	for name, p := range set.Types {
		k := c.kinds[name]
		k.policy, k.rules = &p, p.Rules()
	}
	c.table.Adopt(c.steady(now), set)
	c.beginDelayed(now)
	c.book(now)
}
