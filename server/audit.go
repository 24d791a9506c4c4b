package server

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/redact"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const (
	auditText  = 500 // bytes of a string in an audit line
	auditItems = 100 // items of a list or a map in an audit line
)

// isContent reports whether a field has the content of a task. Audit lines leave it out.
func isContent(f protoreflect.FieldDescriptor) bool {
	name := f.Name()
	return f.Kind() == protoreflect.BytesKind || name == "text" || name == "payload" || name == "headers"
}

// isManagement reports whether a method changes something that a client has not added itself: it has audit lines.
func isManagement(method string) bool {
	r := rights[method].role
	return r == access.Manage || r == access.Operate || r == access.Admin
}

// note writes the audit line of a request, before it is answered; req is nil if it was refused before it was read.
func (a *API) note(ctx context.Context, method string, req any, err error) {
	if a.audit == nil || !isManagement(method) {
		return
	}
	outcome, said := "ok", ""
	if err != nil {
		outcome, said = connect.CodeOf(err).String(), err.Error()
	}
	attributes := []slog.Attr{
		slog.String("who", whoOf(ctx)), slog.String("from", originOf(ctx).address), slog.String("verb", method), slog.String("outcome", outcome),
	}
	if m, ok := req.(proto.Message); ok {
		attributes = append(attributes, slog.Any("what", contentOf(m.ProtoReflect())))
	}
	if said != "" {
		attributes = append(attributes, slog.String("error", cutText(said)))
	}
	a.audit.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "audit", attributes...)
}

// contentOf returns the fields of a message that are set, by their names.
func contentOf(m protoreflect.Message) map[string]any {
	content := make(map[string]any)
	if o, ok := m.Interface().(*taskenginev1.BulkOrder); ok && bulk.Verb(o.GetVerb()) == bulk.Erase {
		o = proto.CloneOf(o)
		if where, err := filter.Parse(o.GetWhere(), time.Now()); err == nil {
			o.Where = where.WithoutContent()
		} else {
			o.Where = redact.Mark
		}
		m = o.ProtoReflect()
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !isContent(f) {
			content[string(f.Name())] = valueOf(f, v)
		}
		return true
	})
	return content
}

// valueOf returns a value of a field.
func valueOf(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		entries := make(map[string]any)
		v.Map().Range(func(k protoreflect.MapKey, one protoreflect.Value) bool {
			entries[cutText(k.String())] = singleOf(f.MapValue(), one)
			return len(entries) < auditItems
		})
		return entries
	case f.IsList():
		items := make([]any, 0, min(v.List().Len(), auditItems))
		for i := range cap(items) {
			items = append(items, singleOf(f, v.List().Get(i)))
		}
		return items
	}
	return singleOf(f, v)
}

// singleOf returns a value that is neither a list nor a map.
func singleOf(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch m := v.Message().Interface().(type) {
		case *durationpb.Duration:
			return m.AsDuration().String()
		case *timestamppb.Timestamp:
			return m.AsTime().Format(time.RFC3339Nano)
		}
		return contentOf(v.Message())
	case protoreflect.StringKind:
		return cutText(v.String())
	case protoreflect.EnumKind:
		return int32(v.Enum())
	}
	return v.Interface()
}

// cutText cuts a long text.
func cutText(s string) string {
	if len(s) <= auditText {
		return s
	}
	cut := auditText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// auditor writes audit lines of requests to the handler of package connect.
type auditor struct{ api *API }

// WrapUnary implements [connect.Interceptor].
func (w auditor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		w.api.note(ctx, strings.TrimPrefix(req.Spec().Procedure, procedures), req.Any(), err)
		return res, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor]. No stream has audit lines.
func (auditor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient implements [connect.Interceptor]. The server is no client.
func (auditor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
