package oidc_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/internal/access"
)

func TestGrantsAreJoinedIfTheyAreForTheSameTypes(t *testing.T) {
	grant := func(roles, types string) oidc.Grant {
		g := oidc.Grant{Types: strings.Fields(types)}
		for _, r := range strings.Fields(roles) {
			g.Roles = append(g.Roles, access.Role(r))
		}
		return g
	}
	all := oidc.Grants{
		"admin": grant("admin", ""), "view": grant("view", ""), "again": grant("view", ""), "submit": grant("submit", ""), "manage": grant("manage", ""), "work": grant("work", ""),
		"shop": grant("manage", "shop-* mail"), "mail": grant("view", "mail"), "shop2": grant("submit", "mail shop-*"), "eu": grant("view", "shop-eu shop-de-*"), "pay": grant("submit", "pay"),
	}
	for values, want := range map[string]string{
		"":              "none",
		"other":         "none",
		"view":          "view for ",
		"view again":    "view for ",
		"view view":     "view for ",
		"view other":    "view for ",
		"submit view":   "submit for ",
		"submit manage": "manage submit for ",
		"manage work":   "manage work for ",
		"admin shop":    "admin for ",
		"shop":          "manage for mail shop-*",
		"shop mail":     "manage for mail shop-*",
		"shop eu":       "manage for mail shop-*",
		"shop shop2":    "manage submit for mail shop-*",
		"view shop":     "conflict",
		"shop pay":      "conflict",
		"mail pay":      "conflict",
	} {
		got, err := all.Of(strings.Fields(values))
		text := "none"
		switch {
		case errors.Is(err, oidc.ErrConflict):
			text = "conflict"
		case err == nil:
			var roles []string
			for _, r := range got.Roles {
				roles = append(roles, string(r))
			}
			text = strings.Join(slices.Sorted(slices.Values(roles)), " ") + " for " + strings.Join(slices.Sorted(slices.Values(got.Types)), " ")
		}
		if text != want {
			t.Errorf("%q give %s, %v; want %s", values, text, err, want)
		}
	}
}
