package server

import (
	"context"
	"strings"
	"testing"
)

func TestTheAuthorOfAChangeIsTheTokenAndTheNameThatTheClientGivesItselfIsAClaim(t *testing.T) {
	long := strings.Repeat("é", maxBy/2)
	socket := context.WithValue(t.Context(), originKey{}, origin{isSocket: true})
	with := func(token string) context.Context {
		return context.WithValue(t.Context(), callerKey{}, &caller{name: token})
	}
	for _, c := range []struct {
		ctx        context.Context
		said, want string
	}{
		{t.Context(), "ann", "unknown (says ann)"},
		{t.Context(), "", "unknown"},
		{t.Context(), "ops (says ann)", "unknown (says ops (says ann))"},
		{socket, "ann", "local (says ann)"},
		{socket, "", "local"},
		{with("ops"), "", "ops"},
		{with("ops"), "ops", "ops"},
		{with("ops"), "the boss", "ops (says the boss)"},
		{with("ops"), long, "ops (says " + long[:maxBy-12] + ")"},
		{with("ops"), long + "x", long + "x"}, // which the method refuses
	} {
		if got := byOf(c.ctx, c.said); got != c.want {
			t.Errorf("%q: %q, want %q", c.said, got, c.want)
		}
	}
}

func TestTheReasonOfAChangeNamesTheToken(t *testing.T) {
	with := context.WithValue(t.Context(), callerKey{}, &caller{name: "ops"})
	for _, c := range []struct {
		ctx                              context.Context
		reason, paused, ended, cancelled string
	}{
		{t.Context(), "", "", "", ""},
		{t.Context(), "by me", "by me", "by me", "by me"},
		{with, "", "by ops", "", "cancelled by ops"},
		{with, "doubled", "ops: doubled", "ops: doubled", "ops: doubled"},
		{with, "by me", "ops: by me", "ops: by me", "ops: by me"},
	} {
		if got := reasonOf(c.ctx, c.reason); got != c.paused {
			t.Errorf("a pause with %q has %q, want %q", c.reason, got, c.paused)
		}
		if got := errorOf(c.ctx, c.reason); got != c.ended {
			t.Errorf("an end with %q has %q, want %q", c.reason, got, c.ended)
		}
		if got := cancelledBy(c.ctx, c.reason); got != c.cancelled {
			t.Errorf("a cancel with %q has %q, want %q", c.reason, got, c.cancelled)
		}
	}
}
