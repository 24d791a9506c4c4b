//go:build !race

package transfer

import (
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Were a field forgotten in the encoding of a row, a copy without it would be verified.
func TestEveryFieldCounts(t *testing.T) {
	for _, of := range []struct {
		name string
		row  func() (*task.Task, reflect.Value)
	}{
		{"Task", func() (*task.Task, reflect.Value) {
			t := new(task.Task)
			return t, reflect.ValueOf(t).Elem()
		}},
		{"Attempt", func() (*task.Task, reflect.Value) {
			t := &task.Task{History: make([]task.Attempt, 1)}
			return t, reflect.ValueOf(&t.History[0]).Elem()
		}},
		{"Notes", func() (*task.Task, reflect.Value) {
			t := &task.Task{Notes: new(task.Notes)}
			return t, reflect.ValueOf(t.Notes).Elem()
		}},
		{"Progress", func() (*task.Task, reflect.Value) {
			t := &task.Task{Notes: new(task.Notes)}
			return t, reflect.ValueOf(&t.Notes.Progress).Elem()
		}},
		{"Signals", func() (*task.Task, reflect.Value) {
			t := &task.Task{Signals: new(task.Signals)}
			return t, reflect.ValueOf(t.Signals).Elem()
		}},
		{"Wake", func() (*task.Task, reflect.Value) {
			t := &task.Task{Signals: new(task.Signals)}
			return t, reflect.ValueOf(&t.Signals.Wake).Elem()
		}},
		{"Signal", func() (*task.Task, reflect.Value) {
			t := &task.Task{Signals: &task.Signals{Kept: make([]task.Signal, 1)}}
			return t, reflect.ValueOf(&t.Signals.Kept[0]).Elem()
		}},
		{"Parent", func() (*task.Task, reflect.Value) {
			t := &task.Task{Parent: new(task.Parent)}
			return t, reflect.ValueOf(t.Parent).Elem()
		}},
		{"ChildSet", func() (*task.Task, reflect.Value) {
			t := &task.Task{Children: &task.Children{Sets: make([]task.ChildSet, 1)}}
			return t, reflect.ValueOf(&t.Children.Sets[0]).Elem()
		}},
	} {
		plain, value := of.row()
		for i := range value.NumField() {
			changed, value := of.row()
			name := value.Type().Field(i).Name
			change(t, value.Field(i))
			same := string(appendRow(nil, changed)) == string(appendRow(nil, plain))
			if same != (of.name == "Task" && (name == "Seq" || name == "Boost")) {
				t.Errorf("another %s.%s gives the same encoding: %t", of.name, name, same)
			}
		}
	}
}

// change makes a zero value another one.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.UnixMicro(1)
		return
	case *map[string]string:
		*at = map[string]string{"": ""}
		return
	case **task.Notes:
		*at = task.NewNotes(task.Progress{Done: 1}, nil)
		return
	case **task.Signals:
		*at = task.NewSignals(task.Signals{Awaits: []string{"paid"}})
		return
	case **task.Parent:
		*at = new(task.Parent)
		return
	case **task.Children:
		*at = new(task.Children)
		return
	}
	switch v.Kind() {
	case reflect.Array:
		v.Index(v.Len() - 1).SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.String:
		v.SetString("x")
	case reflect.Struct:
		change(t, v.Field(0))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	default:
		t.Fatalf("how is a %v changed?", v.Type())
	}
}

func TestEmptyAndNothingAreTheSame(t *testing.T) {
	a := &task.Task{Headers: map[string]string{}, Payload: []byte{}, Result: []byte{}, History: []task.Attempt{}, Notes: new(task.Notes)}
	if string(appendRow(nil, a)) != string(appendRow(nil, new(task.Task))) {
		t.Error("they are not")
	}
}

func TestWhatIsInOneFieldIsNotTakenForAnother(t *testing.T) {
	a, b := &task.Task{Type: "ab", Group: "c"}, &task.Task{Type: "a", Group: "bc"}
	if string(appendRow(nil, a)) == string(appendRow(nil, b)) {
		t.Error("it is")
	}
}

func TestAChecksumDependsOnTheRowsAndNotOnTheirOrder(t *testing.T) {
	of := func(ids ...byte) (c Checksum) {
		var x index
		for _, id := range ids {
			c.add(x.add(&task.Task{ID: task.ID{id}}))
		}
		return c
	}
	if of(1, 2, 3) != of(3, 1, 2) {
		t.Error("the order counts")
	}
	for _, other := range []Checksum{of(), of(1, 2), of(1, 2, 3, 3), of(1, 2, 4), of(1, 2, 3, 4, 4)} {
		if other == of(1, 2, 3) {
			t.Errorf("%v is the checksum of other rows, too", other)
		}
	}
	if of(4, 4) == of() || of(4, 4) == of(5, 5) {
		t.Error("rows that are there twice cancel each other")
	}
}
