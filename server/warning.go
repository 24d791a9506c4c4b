package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/internal/suggest"
)

// maxWarnedTypes is for how many types one call is warned at most: the store is asked about each.
const maxWarnedTypes = 10

// typeWarnings are the warnings of the types of one call. It belongs to the goroutine of the call.
type typeWarnings struct {
	types  map[string]string
	warned int
}

// of returns the warning of a type.
func (w *typeWarnings) of(ctx context.Context, a *API, typ string) string {
	warning, ok := w.types[typ]
	if !ok && w.warned < maxWarnedTypes {
		if warning = a.warningOf(ctx, typ); warning != "" {
			w.warned++
		}
		if w.types == nil {
			w.types = make(map[string]string)
		}
		w.types[typ] = warning
	}
	return warning
}

// warningOf returns a warning if no node is known that runs tasks of a type; else "".
func (a *API) warningOf(ctx context.Context, typ string) string {
	if a.engine.KnowsType(ctx, typ) {
		return ""
	}
	warning := fmt.Sprintf("no live node has a handler for type %s, which is not configured on this node: its tasks wait until a node has one", text(typ))
	if near := a.nearType(ctx, typ); near != "" {
		warning += "; did you mean " + near + "?"
	}
	return warning
}

// nearType returns the known type that a type is most likely a misspelling of, if the caller may use it; "" if there is none.
func (a *API) nearType(ctx context.Context, typ string) string {
	names := slices.DeleteFunc(a.engine.KnownTypes(), func(name string) bool { return name == typ || a.permit(ctx, name) != nil })
	return text(suggest.Nearest(typ, names))
}
