package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// earlier calls fn with the API of each earlier version. The files are descriptor sets, made by protoc
// --descriptor_set_out from the taskengine.proto of the day that they are named for.
func earlier(t *testing.T, fn func(*testing.T, protoreflect.FileDescriptor)) {
	files, err := filepath.Glob("testdata/earlier/*.binpb")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no descriptors of earlier versions: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".binpb"), func(t *testing.T) {
			var set descriptorpb.FileDescriptorSet
			text, err := os.ReadFile(name)
			if err == nil {
				err = proto.Unmarshal(text, &set)
			}
			if err != nil {
				t.Fatal(err)
			}
			file, err := protodesc.NewFile(set.GetFile()[0], protoregistry.GlobalFiles)
			if err != nil {
				t.Fatal(err)
			}
			fn(t, file)
		})
	}
}

// A client of an earlier version sends and reads the fields that it knows, in both encodings.
func TestTheAPIHasAllThatEarlierVersionsHad(t *testing.T) {
	now := taskenginev1.File_taskengine_v1_taskengine_proto
	earlier(t, func(t *testing.T, then protoreflect.FileDescriptor) {
		for messages, i := then.Messages(), 0; i < messages.Len(); i++ {
			hasMessage(t, now.Messages().ByName(messages.Get(i).Name()), messages.Get(i))
		}
		for enums, i := then.Enums(), 0; i < enums.Len(); i++ {
			hasValues(t, now.Enums().ByName(enums.Get(i).Name()), enums.Get(i))
		}
		for services, i := then.Services(), 0; i < services.Len(); i++ {
			hasMethods(t, now.Services().ByName(services.Get(i).Name()), services.Get(i))
		}
	})
}

// renamed has the fields that got another name before the first release.
var renamed = map[protoreflect.FullName]protoreflect.Name{"taskengine.v1.Alert.told": "notified"}

func hasMessage(t *testing.T, now, then protoreflect.MessageDescriptor) {
	if now == nil {
		t.Errorf("%s is gone", then.FullName())
		return
	}
	for i := range then.Fields().Len() {
		old := then.Fields().Get(i)
		f, name := now.Fields().ByNumber(old.Number()), cmp.Or(renamed[old.FullName()], old.Name())
		switch {
		case f == nil:
			t.Errorf("%s is gone", old.FullName())
		case f.Name() != name || name == old.Name() && f.JSONName() != old.JSONName():
			t.Errorf("%s is called %s", old.FullName(), f.Name())
		case f.Kind() != old.Kind() || f.Cardinality() != old.Cardinality() || f.HasPresence() != old.HasPresence():
			t.Errorf("%s is %v %v, and was %v %v", f.FullName(), f.Cardinality(), f.Kind(), old.Cardinality(), old.Kind())
		case f.Message() != nil && f.Message().FullName() != old.Message().FullName():
			t.Errorf("%s is a %s, and was a %s", f.FullName(), f.Message().FullName(), old.Message().FullName())
		}
	}
	for i := range then.Messages().Len() {
		old := then.Messages().Get(i)
		hasMessage(t, now.Messages().ByName(old.Name()), old)
	}
	for i := range then.Enums().Len() {
		old := then.Enums().Get(i)
		hasValues(t, now.Enums().ByName(old.Name()), old)
	}
}

func hasValues(t *testing.T, now, then protoreflect.EnumDescriptor) {
	if now == nil {
		t.Errorf("%s is gone", then.FullName())
		return
	}
	for i := range then.Values().Len() {
		old := then.Values().Get(i)
		if v := now.Values().ByNumber(old.Number()); v == nil || v.Name() != old.Name() {
			t.Errorf("%s, %d, is %v", old.FullName(), old.Number(), v)
		}
	}
}

func hasMethods(t *testing.T, now, then protoreflect.ServiceDescriptor) {
	if now == nil {
		t.Errorf("%s is gone", then.FullName())
		return
	}
	for i := range then.Methods().Len() {
		old := then.Methods().Get(i)
		m := now.Methods().ByName(old.Name())
		switch {
		case m == nil:
			t.Errorf("%s is gone", old.FullName())
		case m.Input().FullName() != old.Input().FullName() || m.Output().FullName() != old.Output().FullName():
			t.Errorf("%s takes a %s and returns a %s", m.FullName(), m.Input().FullName(), m.Output().FullName())
		case m.IsStreamingClient() != old.IsStreamingClient() || m.IsStreamingServer() != old.IsStreamingServer():
			t.Errorf("%s streams otherwise", m.FullName())
		}
	}
}

// A client that was generated from an earlier version adds a task, waits for it, and reads it, and sees nothing that it
// does not know.
func TestAClientOfAnEarlierVersionIsServed(t *testing.T) {
	n := newNode(t)
	library := n.library(t)
	earlier(t, func(t *testing.T, then protoreflect.FileDescriptor) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		service := then.Services().ByName("TaskService")
		call := func(method, request string) map[string]any {
			t.Helper()
			m := service.Methods().ByName(protoreflect.Name(method))
			req, res := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
			if err := protojson.Unmarshal([]byte(request), req); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			if err := library.Invoke(ctx, "/"+string(service.FullName())+"/"+method, req, res); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			return fieldsOf(t, res)
		}
		added := call("Submit", `{"tasks": [{"type": "echo", "text": "hello", "key": "`+t.Name()+`", "priority": 3}]}`)
		id := added["receipts"].([]any)[0].(map[string]any)["id"].(string)
		if settled := call("Wait", `{"ids": ["`+id+`"], "timeout": "50s"}`); settled["settled"] != true {
			t.Errorf("the task has not ended: %v", settled)
		}
		one := call("Get", `{"id": "`+id+`"}`)["task"].(map[string]any)
		if one["state"] != "done" || one["key"] != t.Name() || one["priority"] != 3.0 || one["result"] == "" {
			t.Errorf("the task is %v", one)
		}
		if all := call("List", `{"types": ["echo"]}`)["tasks"].([]any); len(all) == 0 {
			t.Error("no task is listed")
		}
		waiting := call("Submit", `{"tasks": [{"type": "idle", "in": "3600s"}]}`)["receipts"].([]any)[0].(map[string]any)["id"].(string)
		if why := call("Why", `{"id": "`+waiting+`"}`); len(why["reasons"].([]any)) == 0 {
			t.Errorf("no reasons are given: %v", why)
		}
		call("Cancel", `{"id": "`+waiting+`", "reason": "not needed"}`)
		if got := call("Get", `{"id": "`+waiting+`"}`)["task"].(map[string]any); got["state"] != "cancelled" {
			t.Errorf("the cancelled task is %v", got)
		}
	})
}

// fieldsOf returns the fields of a message as JSON has them.
func fieldsOf(t *testing.T, m proto.Message) map[string]any {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]any)
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
