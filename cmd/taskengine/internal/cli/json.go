package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/terminal"
)

// jsonObject is a JSON object with fields in an order.
type jsonObject []jsonField

type jsonField struct {
	name  string
	value any // that json.Marshal takes
}

// messageJSON returns a message of the API as -o json writes it, see docs/cli.md: its fields have the names and the order of
// the proto file, so that a new field needs no code here. Numbers, booleans, lists and maps are always there; text, bytes,
// messages and optional values are left out when they are empty or absent.
//
// It is not protojson because scripts would have to convert its output: 64-bit numbers are text there, and payloads and
// results are base64 though they are JSON nearly always. Here they are JSON, and bytes of other kinds are base64 in a
// field with _base64 after its name, with text beside it in one with _text, and durations are text as flags take it, such as
// 1h30m. Numbers and fields that are empty are left out there, or text is written though it is empty. And its space between
// tokens differs from one program to the next.
func messageJSON(m proto.Message) (o jsonObject) {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	o = make(jsonObject, 0, fields.Len()+2)
	add := func(name string, value any) { o = append(o, jsonField{name, value}) }
	for i := range fields.Len() {
		f := fields.Get(i)
		name, v := string(f.Name()), r.Get(f)
		switch {
		case f.IsList():
			list := make([]any, v.List().Len())
			for i := range list {
				list[i] = valueJSON(f, v.List().Get(i))
			}
			add(name, list)
		case f.IsMap():
			values := make(map[string]any, v.Map().Len())
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				values[k.String()] = valueJSON(f.MapValue(), v)
				return true
			})
			add(name, values)
		case f.HasPresence() && !r.Has(f):
		case f.Kind() == protoreflect.BytesKind:
			o.setBytes(name, v.Bytes())
		case f.Kind() == protoreflect.StringKind && v.String() == "" && !f.HasPresence():
		default:
			add(name, valueJSON(f, v))
		}
	}
	return o
}

// valueJSON returns a single value of a field as json.Marshal takes it.
func valueJSON(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if f.Kind() != protoreflect.MessageKind {
		return v.Interface()
	}
	switch m := v.Message().Interface().(type) {
	case *timestamppb.Timestamp:
		return m.AsTime()
	case *durationpb.Duration:
		return durationText(m)
	default:
		return messageJSON(m)
	}
}

// set gives a field a value. A field that is not there becomes the last one.
func (o *jsonObject) set(name string, value any) {
	i := slices.IndexFunc(*o, func(f jsonField) bool { return f.name == name })
	if i < 0 {
		*o = append(*o, jsonField{name, value})
		return
	}
	(*o)[i].value = value
}

// setBytes gives a field bytes as they are if they are JSON, and otherwise fields with their base64 and, if they are text, with
// that. It leaves out no bytes.
func (o *jsonObject) setBytes(name string, b []byte) {
	asJSON, asBase64 := bytesToJSON(b)
	switch {
	case asJSON != nil:
		o.set(name, asJSON)
	case len(b) > 0:
		o.set(name+"_base64", asBase64)
		if text := textOf(b); text != "" {
			o.set(name+"_text", text)
		}
	}
}

// without returns o without some fields.
func (o jsonObject) without(names ...string) jsonObject {
	return slices.DeleteFunc(o, func(f jsonField) bool { return slices.Contains(names, f.name) })
}

// MarshalJSON implements [json.Marshaler].
func (o jsonObject) MarshalJSON() ([]byte, error) { return o.append(nil) }

// textOf returns bytes that are text, and "" for others.
func textOf(b []byte) string {
	if !utf8.Valid(b) {
		return ""
	}
	return string(b)
}

// bytesToJSON returns bytes as they are if they are JSON, and otherwise in base64.
func bytesToJSON(b []byte) (json.RawMessage, string) {
	switch {
	case len(b) == 0:
		return nil, ""
	case utf8.Valid(b) && json.Valid(b):
		return b, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

// printMessage writes a message of the API as one line of JSON.
func (a *app) printMessage(m proto.Message) error { return printMessages(a, []proto.Message{m}) }

// printMessages writes messages of the API, each as one line of JSON, or in another form.
func printMessages[M proto.Message](a *app, all []M) error {
	if a.output.isMade() {
		for _, m := range all {
			if err := a.printJSON(a.formOf(m)); err != nil {
				return err
			}
		}
		return nil
	}
	var lines []byte
	for _, m := range all {
		var err error
		if lines, err = messageJSON(m).append(lines); err != nil {
			return err
		}
		lines = append(lines, '\n')
	}
	_, err := terminal.JSONWriter(a.stdout).Write(lines)
	return err
}

// formOf returns a message for a form other than JSON. A template finds its text also where that is empty.
func (a *app) formOf(m proto.Message) jsonObject {
	o := messageJSON(m)
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := 0; i < fields.Len() && !a.output.takesMore(); i++ {
		f := fields.Get(i)
		isText := f.Kind() == protoreflect.StringKind && !f.IsList() && !f.IsMap()
		if isText && !slices.ContainsFunc(o, func(has jsonField) bool { return has.name == string(f.Name()) }) {
			o.set(string(f.Name()), "")
		}
	}
	return o
}

// printJSON writes a value as one line of JSON, or in another form.
func (a *app) printJSON(v any) error {
	if !a.output.isMade() {
		e := json.NewEncoder(terminal.JSONWriter(a.stdout))
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return a.printForm(line.Bytes())
}
