package server

import (
	"context"
	"strings"

	"github.com/taskengine/taskengine/internal/access"
)

// origin is where a request comes from.
type origin struct {
	address  string
	isSocket bool
}

// originKey is the key of the origin in the context of a request of a management method.
type originKey struct{}

func originOf(ctx context.Context) origin {
	from, _ := ctx.Value(originKey{}).(origin)
	return from
}

// whoOf returns the name of the token of a request, or local for one on the socket, or unknown.
func whoOf(ctx context.Context) string {
	switch c := callerOf(ctx); {
	case c != nil:
		return c.name
	case originOf(ctx).isSocket:
		return access.Local
	}
	return access.Unknown
}

// byOf returns the author of a change: the caller, see [whoOf], and then said, the name that the client gives itself, as a
// claim. It has at most maxBy bytes unless said has more.
func byOf(ctx context.Context, said string) string {
	who := whoOf(ctx)
	switch {
	case len(said) > maxBy: // which the method refuses
		return said
	case said == "" || said == who:
		return who
	}
	const begin, end = " (says ", ")" // no name of a token has them
	return who + begin + strings.ToValidUTF8(said[:min(len(said), max(0, maxBy-len(who)-len(begin)-len(end)))], "") + end
}

// reasonOf returns the reason of a change, which is kept with the changed object, behind the name of the caller's token. A caller
// without a token has no name that is known.
func reasonOf(ctx context.Context, reason string) string {
	c := callerOf(ctx)
	switch {
	case c == nil:
		return reason
	case reason == "":
		return "by " + c.name
	}
	return c.name + ": " + reason
}

// errorOf is [reasonOf] for a reason that becomes the error of a task. If there is none, the task keeps its error.
func errorOf(ctx context.Context, reason string) string {
	if reason == "" {
		return ""
	}
	return reasonOf(ctx, reason)
}

// cancelledBy returns the error of a task that the caller cancels.
func cancelledBy(ctx context.Context, reason string) string {
	if reason = reasonOf(ctx, reason); strings.HasPrefix(reason, "by ") && callerOf(ctx) != nil {
		return "cancelled " + reason
	}
	return reason
}

// noted logs a change with its author.
func (a *API) noted(ctx context.Context, what string, attributes ...any) {
	a.log.Info(what, append(attributes, "by", byOf(ctx, ""))...)
}
