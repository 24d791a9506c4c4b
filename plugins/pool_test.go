package plugins

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAPoolDecides(t *testing.T) {
	now := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	busy := member{running: 4, slots: 4}
	half := member{running: 2, slots: 4}
	rested := member{slots: 4, idleSince: ago(time.Hour)}
	resting := member{slots: 4, idleSince: ago(10 * time.Second)}
	outdated := member{running: 2, slots: 4, outdated: true}
	ordinary := pool{least: 1, most: 3, atOnce: 2, idle: 30 * time.Second}
	for name, test := range map[string]struct {
		pool pool
		c    census
		want plan
	}{
		"nothing to do":                      {ordinary, census{members: []member{rested}}, plan{}},
		"none yet":                           {ordinary, census{}, plan{start: 1}},
		"none yet, and none needed":          {pool{most: 3}, census{}, plan{}},
		"none yet, and many tasks":           {ordinary, census{waiting: 100}, plan{start: 3}},
		"the first is on its way":            {ordinary, census{waiting: 1, starting: 1}, plan{}},
		"there is room":                      {ordinary, census{waiting: 2, members: []member{half}}, plan{}},
		"there is no room":                   {ordinary, census{waiting: 1, members: []member{busy}}, plan{start: 1}},
		"there is no room for many":          {ordinary, census{waiting: 100, members: []member{busy}}, plan{start: 2}},
		"another is on its way":              {ordinary, census{waiting: 1, members: []member{busy}, starting: 1}, plan{}},
		"no more are allowed":                {ordinary, census{waiting: 100, members: []member{busy, busy, busy}}, plan{}},
		"too early to start":                 {ordinary, census{waiting: 1, notBefore: now.Add(time.Second)}, plan{next: now.Add(time.Second)}},
		"too early, but nothing to start":    {ordinary, census{members: []member{rested}, notBefore: now.Add(time.Second)}, plan{}},
		"one too many for long":              {ordinary, census{members: []member{half, rested}}, plan{drain: []int{1}}},
		"one too many for a while":           {ordinary, census{members: []member{resting, half}}, plan{next: now.Add(20 * time.Second)}},
		"two too many, one for long":         {ordinary, census{members: []member{resting, rested, half}}, plan{drain: []int{1}, next: now.Add(20 * time.Second)}},
		"the last ones rest":                 {ordinary, census{members: []member{rested, rested}}, plan{drain: []int{0}}},
		"the last one too":                   {pool{most: 1}, census{members: []member{rested}}, plan{drain: []int{0}}},
		"one is outdated":                    {ordinary, census{members: []member{outdated}}, plan{start: 1}},
		"the outdated one is replaced":       {ordinary, census{members: []member{outdated, half}}, plan{drain: []int{0}}},
		"all are outdated":                   {ordinary, census{waiting: 9, members: []member{outdated, outdated, outdated}}, plan{start: 1}},
		"all are outdated, one ends":         {ordinary, census{waiting: 9, members: []member{outdated, outdated}, leaving: 1}, plan{start: 1}},
		"all are outdated, two end":          {ordinary, census{waiting: 9, members: []member{outdated, outdated}, leaving: 2}, plan{}},
		"an outdated one that is not needed": {pool{most: 1}, census{members: []member{outdated}}, plan{drain: []int{0}}},
		"a task that must be alone":          {ordinary, census{alone: 1, members: []member{rested}}, plan{startAlone: 1}},
		"its process is there":               {ordinary, census{alone: 1, aloneFree: 1, aloneTotal: 1, members: []member{rested}}, plan{}},
		"another one's process is there":     {ordinary, census{alone: 1, aloneTotal: 1, members: []member{rested}}, plan{startAlone: 1}},
		"two others' processes are there":    {ordinary, census{alone: 1, aloneTotal: 2, members: []member{rested}}, plan{}},
		"many tasks that must be alone":      {ordinary, census{alone: 9, members: []member{rested}}, plan{startAlone: 2}},
		"too early for its process":          {ordinary, census{alone: 1, members: []member{rested}, notBefore: now.Add(1)}, plan{next: now.Add(1)}},
		"one for each task, none waits":      {pool{least: 1, most: 4, perTask: true}, census{members: []member{{slots: 1}}}, plan{}},
		"one for each task, one waits":       {pool{least: 1, most: 4, perTask: true}, census{waiting: 1, members: []member{{slots: 1}}}, plan{start: 1}},
		"one for each task, some run":        {pool{least: 1, most: 4, perTask: true}, census{leaving: 3}, plan{start: 1}},
		"one for each task, no more":         {pool{least: 1, most: 4, perTask: true}, census{waiting: 9, leaving: 3, members: []member{{slots: 1}}}, plan{}},
		"one for each task, without spare":   {pool{most: 4, perTask: true}, census{waiting: 2}, plan{start: 2}},
	} {
		test.c.now = now
		if diff := cmp.Diff(test.want, test.pool.decide(test.c), cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
