package client

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// unmirrored has the fields of messages that the types of this package leave out, and why.
var unmirrored = map[string]string{
	"taskengine.v1.Task.payload_text":                  "it is in JSON only",
	"taskengine.v1.Task.result_text":                   "it is in JSON only",
	"taskengine.v1.ReceivedSignal.data_text":           "it is in JSON only",
	"taskengine.v1.NewTask.text":                       "a payload is bytes",
	"taskengine.v1.TaskValues.text":                    "a payload is bytes",
	"taskengine.v1.SetLimitRequest.name":               "it is a parameter",
	"taskengine.v1.SubmitWithChildrenRequest.task":     "it is a parameter",
	"taskengine.v1.SubmitWithChildrenRequest.children": "it is a parameter",
	"taskengine.v1.SubmitWithChildrenRequest.open":     "the client splits the children",
	"taskengine.v1.UnsetLimitRequest.name":             "it is a parameter",
	"taskengine.v1.SetDocumentRequest.key":             "it is a parameter",
	"taskengine.v1.DeleteDocumentRequest.key":          "it is a parameter",
}

// Every field of a message arrives in the field of the same name, also with any other field absent.
func TestEveryFieldOfAMessageArrives(t *testing.T) {
	for _, one := range []struct {
		message proto.Message
		convert func(*decoder, proto.Message) any
	}{
		{new(taskenginev1.Task), func(d *decoder, m proto.Message) any { return d.task(m.(*taskenginev1.Task)) }},
		{new(taskenginev1.StateCount), func(_ *decoder, m proto.Message) any { return stateCountOf(m.(*taskenginev1.StateCount)) }},
		{new(taskenginev1.Reason), func(d *decoder, m proto.Message) any { return d.reason(m.(*taskenginev1.Reason)) }},
		{new(taskenginev1.Document), func(_ *decoder, m proto.Message) any { return documentOf(m.(*taskenginev1.Document)) }},
		{new(taskenginev1.Limit), func(_ *decoder, m proto.Message) any { return limitOf(m.(*taskenginev1.Limit)) }},
		{new(taskenginev1.WhyLimitResponse), func(d *decoder, m proto.Message) any { return d.limitReasons(m.(*taskenginev1.WhyLimitResponse)) }},
		{new(taskenginev1.Schedule), func(d *decoder, m proto.Message) any { return d.schedule(m.(*taskenginev1.Schedule)) }},
		{new(taskenginev1.AppliedSchedule), func(_ *decoder, m proto.Message) any { return appliedOf(m.(*taskenginev1.AppliedSchedule)) }},
		{new(taskenginev1.ScheduleTime), func(_ *decoder, m proto.Message) any { return scheduleTimeOf(m.(*taskenginev1.ScheduleTime)) }},
		{new(taskenginev1.Source), func(d *decoder, m proto.Message) any { return d.source(m.(*taskenginev1.Source)) }},
		{new(taskenginev1.SliceSource), func(d *decoder, m proto.Message) any { return d.sliceSource(m.(*taskenginev1.SliceSource)) }},
		{new(taskenginev1.Platform), func(d *decoder, m proto.Message) any { return d.platform(m.(*taskenginev1.Platform)) }},
		{new(taskenginev1.ListErrorsResponse), func(d *decoder, m proto.Message) any { return d.errorKinds(m.(*taskenginev1.ListErrorsResponse)) }},
		{new(taskenginev1.BulkJob), func(d *decoder, m proto.Message) any { return d.bulkJob(m.(*taskenginev1.BulkJob)) }},
		{new(taskenginev1.PreviewBulkJobResponse), func(d *decoder, m proto.Message) any { return d.bulkPreview(m.(*taskenginev1.PreviewBulkJobResponse)) }},
		{new(taskenginev1.Token), func(_ *decoder, m proto.Message) any { return tokenFrom(m.(*taskenginev1.Token)) }},
		{new(taskenginev1.SilentNode), func(_ *decoder, m proto.Message) any { return silentOf(m.(*taskenginev1.SilentNode)) }},
		{new(taskenginev1.LogLine), func(_ *decoder, m proto.Message) any { return logLineOf(m.(*taskenginev1.LogLine)) }},
		{new(taskenginev1.RanElsewhere), func(_ *decoder, m proto.Message) any { return elsewhereOf(m.(*taskenginev1.RanElsewhere)) }},
		{new(taskenginev1.Type), func(_ *decoder, m proto.Message) any { return taskTypeOf(m.(*taskenginev1.Type)) }},
		{new(taskenginev1.OrderingKey), func(d *decoder, m proto.Message) any { return d.orderingKey(m.(*taskenginev1.OrderingKey)) }},
		{new(taskenginev1.ListAlertsResponse), func(_ *decoder, m proto.Message) any { return alertsOf(m.(*taskenginev1.ListAlertsResponse)) }},
		{new(taskenginev1.AlertTest), func(_ *decoder, m proto.Message) any { return alertTestOf(m.(*taskenginev1.AlertTest)) }},
		{new(taskenginev1.AppliedConfig), func(_ *decoder, m proto.Message) any { return appliedConfigOf(m.(*taskenginev1.AppliedConfig)) }},
		{new(taskenginev1.Node), func(_ *decoder, m proto.Message) any { return nodeOf(m.(*taskenginev1.Node)) }},
		{new(taskenginev1.Worker), func(_ *decoder, m proto.Message) any { return workerOf(m.(*taskenginev1.Worker)) }},
		{new(taskenginev1.SourceMove), func(_ *decoder, m proto.Message) any { return moveOf(m.(*taskenginev1.SourceMove)) }},
		{new(taskenginev1.Receipt), func(d *decoder, m proto.Message) any {
			var r Receipt
			r, d.err = receiptOf(m.(*taskenginev1.Receipt))
			return r
		}},
	} {
		t.Run(string(one.message.ProtoReflect().Descriptor().Name()), func(t *testing.T) {
			check := func(m protoreflect.Message) {
				t.Helper()
				var d decoder
				got := one.convert(&d, m.Interface())
				if d.err != nil && m.Get(m.Descriptor().Fields().Get(0)).String() != "" { // a receipt needs its id
					t.Error(d.err)
				}
				mirror(t, m, reflect.Indirect(reflect.ValueOf(got)))
			}
			full := one.message.ProtoReflect()
			fillMessage(full, new(int))
			check(full)
			for field := range fieldsOf(full) {
				part := proto.Clone(full.Interface()).ProtoReflect()
				part.Clear(field)
				check(part)
			}
			check(full.New())
		})
	}
}

// Every field that a caller gives is sent in the field of the same name.
func TestEveryFieldThatACallerGivesIsSent(t *testing.T) {
	for _, one := range []struct {
		given   any // a pointer
		convert func(any) proto.Message
	}{
		{new(Request), func(v any) proto.Message { return newTaskMessage(v.(*Request), v.(*Request).ID) }},
		{new(ChildrenOptions), func(v any) proto.Message { return childrenMessage(v.(*ChildrenOptions)) }},
		{new(NamedSchedule), func(v any) proto.Message { return namedMessage(v.(*NamedSchedule)) }},
		{new(ScheduleDefinition), func(v any) proto.Message { return definitionMessage(v.(*ScheduleDefinition)) }},
		{new(LimitChange), func(v any) proto.Message { return setLimitMessage("mail", v.(*LimitChange)) }},
		{new(TokenRequest), func(v any) proto.Message { return tokenRequestMessage(v.(*TokenRequest)) }},
		{new(BulkOrder), func(v any) proto.Message { return orderMessage(v.(*BulkOrder)) }},
		{new(TaskValues), func(v any) proto.Message { return valuesMessage(v.(*TaskValues)) }},
		{new(DocumentWrite), func(v any) proto.Message { return setDocumentMessage("a", v.(*DocumentWrite)) }},
		{new(DocumentDelete), func(v any) proto.Message { return deleteDocumentMessage("a", v.(*DocumentDelete)) }},
		{new(SilenceRequest), func(v any) proto.Message { return silenceMessage(v.(*SilenceRequest)) }},
		{new(LimitUnset), func(v any) proto.Message { return unsetLimitMessage("mail", v.(*LimitUnset)) }},
	} {
		t.Run(reflect.TypeOf(one.given).Elem().Name(), func(t *testing.T) {
			full := reflect.ValueOf(one.given).Elem()
			fillValue(full, new(int))
			mirror(t, one.convert(one.given).ProtoReflect(), full)
			for i := range full.NumField() {
				if !full.Type().Field(i).IsExported() {
					continue
				}
				part := reflect.New(full.Type())
				part.Elem().Set(full)
				part.Elem().Field(i).SetZero()
				mirror(t, one.convert(part.Interface()).ProtoReflect(), part.Elem())
			}
		})
	}
	if set, deleted := setDocumentMessage("a", new(DocumentWrite)), deleteDocumentMessage("a", new(DocumentDelete)); set.GetKey() != "a" || deleted.GetKey() != "a" {
		t.Errorf("the documents are %q and %q", set.GetKey(), deleted.GetKey())
	}
	if set, unset := setLimitMessage("mail", new(LimitChange)), unsetLimitMessage("mail", new(LimitUnset)); set.GetName() != "mail" || unset.GetName() != "mail" {
		t.Errorf("the limits are %q and %q", set.GetName(), unset.GetName())
	}
}

// fieldsOf has the fields of a message that a type of this package has.
func fieldsOf(m protoreflect.Message) map[protoreflect.FieldDescriptor]string {
	fields := make(map[protoreflect.FieldDescriptor]string)
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		if unmirrored[string(field.FullName())] != "" {
			continue
		}
		name := ""
		for part := range strings.SplitSeq(string(field.Name()), "_") {
			if part == "id" || part == "sdk" {
				part = strings.ToUpper(part)
			}
			name += strings.ToUpper(part[:1]) + part[1:]
		}
		fields[field] = name
	}
	return fields
}

// mirror fails unless a message and a struct have the same fields with the same values.
func mirror(t *testing.T, m protoreflect.Message, v reflect.Value) {
	t.Helper()
	names := make(map[string]bool)
	for field, name := range fieldsOf(m) {
		names[name] = true
		part := v.FieldByName(name)
		if !part.IsValid() {
			t.Errorf("%v has no field %s, for %s", v.Type(), name, field.FullName())
			continue
		}
		value := m.Get(field)
		switch {
		case field.IsMap():
			if value.Map().Len() != part.Len() {
				t.Errorf("%s: %d entries became %d", field.FullName(), value.Map().Len(), part.Len())
			}
			for key, one := range value.Map().Range {
				if got := part.MapIndex(reflect.ValueOf(key.String())); !got.IsValid() || fmt.Sprint(got.Interface()) != fmt.Sprint(one.Interface()) {
					t.Errorf("%s: %v: %v became %v", field.FullName(), key, one, got)
				}
			}
		case field.IsList():
			if value.List().Len() != part.Len() {
				t.Errorf("%s: a list of %d became one of %d", field.FullName(), value.List().Len(), part.Len())
				continue
			}
			for i := range part.Len() {
				mirrorOne(t, field, value.List().Get(i), reflect.Indirect(part.Index(i)))
			}
		case part.Kind() == reflect.Pointer && part.IsNil() == m.Has(field):
			t.Errorf("%s: present is %v, and it became %v", field.FullName(), m.Has(field), part)
		case part.Kind() != reflect.Pointer || !part.IsNil():
			mirrorOne(t, field, value, reflect.Indirect(part))
		}
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !names[f.Name] {
			t.Errorf("%s has no field for %v.%s", m.Descriptor().FullName(), v.Type(), f.Name)
		}
	}
}

func mirrorOne(t *testing.T, field protoreflect.FieldDescriptor, value protoreflect.Value, part reflect.Value) {
	t.Helper()
	want, got := fmt.Sprint(value.Interface()), fmt.Sprint(part.Interface())
	switch got := part.Interface().(type) {
	case time.Time:
		m := value.Message().Interface().(*timestamppb.Timestamp)
		if got.IsZero() == value.Message().IsValid() || !got.IsZero() && !got.Equal(m.AsTime()) {
			t.Errorf("%s: %v became %v", field.FullName(), m, got)
		}
		return
	case time.Duration:
		if m := value.Message().Interface().(*durationpb.Duration); m.AsDuration() != got {
			t.Errorf("%s: %v became %v", field.FullName(), m, got)
		}
		return
	case task.ID:
		if got.IsZero() && value.String() == "" {
			return
		}
	}
	if field.Kind() == protoreflect.MessageKind {
		mirror(t, value.Message(), part)
		return
	}
	if want != got {
		t.Errorf("%s: %s became %s", field.FullName(), want, got)
	}
}

// fillMessage gives every field of a message a value of its own.
func fillMessage(m protoreflect.Message, n *int) {
	for field := range fieldsOf(m) {
		switch {
		case field.IsMap():
			m.Mutable(field).Map().Set(protoreflect.ValueOfString(textOf(n)).MapKey(), scalarOf(field.MapValue(), n))
		case field.IsList() && field.Kind() == protoreflect.MessageKind:
			for range 2 {
				fillMessage(m.Mutable(field).List().AppendMutable().Message(), n)
			}
		case field.IsList():
			m.Mutable(field).List().Append(scalarOf(field, n))
		case field.Kind() == protoreflect.MessageKind:
			fillMessage(m.Mutable(field).Message(), n)
		default:
			m.Set(field, scalarOf(field, n))
		}
	}
}

// textOf returns a text that may be an id.
func textOf(n *int) string {
	*n++
	return fmt.Sprintf("00000000-0000-7000-8000-%012d", *n)
}

func scalarOf(field protoreflect.FieldDescriptor, n *int) protoreflect.Value {
	*n++
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(textOf(n)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(textOf(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(*n % 256)) // a priority has a byte
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(*n))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(*n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(*n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(*n))
	}
	panic(fmt.Sprintf("%s: fill a field of the kind %v, too", field.FullName(), field.Kind()))
}

// fillValue gives every field of a struct a value of its own.
func fillValue(v reflect.Value, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(*n), int64(*n)).UTC()))
		return
	case []byte:
		v.SetBytes([]byte(textOf(n)))
		return
	case task.ID:
		v.Set(reflect.ValueOf(task.ID{1, byte(*n)}))
		return
	case []string:
		v.Set(reflect.ValueOf([]string{textOf(n), textOf(n)}))
		return
	case []task.ID:
		v.Set(reflect.ValueOf([]task.ID{{byte(*n)}, {byte(*n + 1)}}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillValue(v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(textOf(n)), reflect.ValueOf(textOf(n)))
	case reflect.String:
		v.SetString(textOf(n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(*n) * int64(time.Second))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		panic(fmt.Sprintf("fill a field of the type %v, too", v.Type()))
	}
}
