package oidc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/internal/access"
)

// Grant is the access that a value of the claim gives.
type Grant struct {
	Roles []access.Role
	Types []string // of tasks; * at the end of one stands for all that begin so; empty: all types
}

// Grants are the grants of the values of the claim.
type Grants map[string]Grant

// Errors of [Grants.Of].
var (
	ErrNone     = errors.New("no value gives a role")
	ErrConflict = errors.New("give roles for different types of tasks; a person can have those of one set of types")
)

// Of returns what some values give together: their roles, if these are for the same types. A grant that another one covers adds nothing.
func (g Grants) Of(values []string) (Grant, error) {
	var names []string
	for _, v := range values {
		if _, ok := g[v]; ok && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	slices.Sort(names)
	kept := slices.DeleteFunc(slices.Clone(names), func(v string) bool {
		return slices.ContainsFunc(names, func(other string) bool {
			return other != v && g[other].covers(g[v]) && (!g[v].covers(g[other]) || other < v)
		})
	})
	if len(kept) == 0 {
		return Grant{}, ErrNone
	}
	all := Grant{Types: g[kept[0]].Types}
	for _, v := range kept {
		if !sameTypes(g[v].Types, all.Types) {
			return Grant{}, fmt.Errorf("the values %s and %s %w", kept[0], v, ErrConflict)
		}
		for _, r := range g[v].Roles {
			if !slices.Contains(all.Roles, r) {
				all.Roles = append(all.Roles, r)
			}
		}
	}
	return all, nil
}

// covers reports whether a grant allows all that another one does.
func (g Grant) covers(other Grant) bool {
	has := access.Token{Roles: g.Roles}
	for _, r := range other.Roles {
		if !has.May(r) {
			return false
		}
	}
	if len(g.Types) == 0 {
		return true
	}
	for _, pattern := range other.Types {
		if !slices.ContainsFunc(g.Types, func(own string) bool {
			begin, isPrefix := strings.CutSuffix(own, "*")
			return own == pattern || isPrefix && strings.HasPrefix(pattern, begin)
		}) {
			return false
		}
	}
	return len(other.Types) > 0
}

func sameTypes(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
