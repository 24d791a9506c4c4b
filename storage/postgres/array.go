package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/taskengine/taskengine/task"
)

// array is an argument of a statement: a one-dimensional array in PostgreSQL's binary format. The
// driver accepts slices, too, and is several times slower to encode them; arguments are most of
// the sent bytes.
type array struct{ bytes []byte }

const arrayHeader = 20

// newArray returns an array for n elements of about size bytes each, which the caller adds.
func newArray(oid uint32, n, size int) *array {
	b := make([]byte, 0, arrayHeader+n*(4+size))
	if n == 0 {
		b = binary.BigEndian.AppendUint32(b, 0) // without a dimension
		b = binary.BigEndian.AppendUint32(b, 0)
		return &array{binary.BigEndian.AppendUint32(b, oid)}
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 1) // there may be nulls
	b = binary.BigEndian.AppendUint32(b, oid)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return &array{binary.BigEndian.AppendUint32(b, 1)} // the first index
}

func (a *array) null() { a.bytes = binary.BigEndian.AppendUint32(a.bytes, 0xffffffff) }

func (a *array) text(v string) {
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, uint32(len(v)))
	a.bytes = append(a.bytes, v...)
}

// orNull adds v, or null if it is empty.
func (a *array) orNull(v []byte) {
	if len(v) == 0 {
		a.null()
		return
	}
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, uint32(len(v)))
	a.bytes = append(a.bytes, v...)
}

func (a *array) id(v task.ID) {
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, uint32(len(v)))
	a.bytes = append(a.bytes, v[:]...)
}

func (a *array) int64(v int64) {
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, 8)
	a.bytes = binary.BigEndian.AppendUint64(a.bytes, uint64(v))
}

func (a *array) int32(v int32) {
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, 4)
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, uint32(v))
}

func (a *array) int16(v int16) {
	a.bytes = binary.BigEndian.AppendUint32(a.bytes, 2)
	a.bytes = binary.BigEndian.AppendUint16(a.bytes, uint16(v))
}

func (a *array) bool(v bool) {
	a.bytes = append(a.bytes, 0, 0, 0, 1, 0)
	if v {
		a.bytes[len(a.bytes)-1] = 1
	}
}

// columnOf returns an array to which add adds one element for each of some.
func columnOf[T any](oid uint32, size int, some []T, add func(*array, T)) *array {
	a := newArray(oid, len(some), size)
	for _, one := range some {
		add(a, one)
	}
	return a
}

// The types of columns.

func uuids[T any](some []T, of func(T) task.ID) *array {
	return columnOf(pgtype.UUIDOID, 16, some, func(a *array, one T) { a.id(of(one)) })
}

func uuidsOrNull[T any](some []T, of func(T) task.ID) *array {
	return columnOf(pgtype.UUIDOID, 16, some, func(a *array, one T) {
		if id := of(one); !id.IsZero() {
			a.id(id)
		} else {
			a.null()
		}
	})
}

func bigints[T any](some []T, of func(T) int64) *array {
	return columnOf(pgtype.Int8OID, 8, some, func(a *array, one T) { a.int64(of(one)) })
}

// bigintsOrNull is bigints, with null where of says that there is none.
func bigintsOrNull[T any](some []T, of func(T) (n int64, ok bool)) *array {
	return columnOf(pgtype.Int8OID, 8, some, func(a *array, one T) {
		if n, ok := of(one); ok {
			a.int64(n)
		} else {
			a.null()
		}
	})
}

func integers[T any](some []T, of func(T) int32) *array {
	return columnOf(pgtype.Int4OID, 4, some, func(a *array, one T) { a.int32(of(one)) })
}

func smallints[T any](some []T, of func(T) int16) *array {
	return columnOf(pgtype.Int2OID, 2, some, func(a *array, one T) { a.int16(of(one)) })
}

// smallintsOrNull is smallints, with null in place of 0.
func smallintsOrNull[T any](some []T, of func(T) int16) *array {
	return columnOf(pgtype.Int2OID, 2, some, func(a *array, one T) {
		if n := of(one); n != 0 {
			a.int16(n)
		} else {
			a.null()
		}
	})
}

func booleans[T any](some []T, of func(T) bool) *array {
	return columnOf(pgtype.BoolOID, 1, some, func(a *array, one T) { a.bool(of(one)) })
}

// trueOrNull is booleans, with null in place of false.
func trueOrNull[T any](some []T, of func(T) bool) *array {
	return columnOf(pgtype.BoolOID, 1, some, func(a *array, one T) {
		if of(one) {
			a.bool(true)
		} else {
			a.null()
		}
	})
}

func texts[T any](some []T, of func(T) string) *array {
	return columnOf(pgtype.ByteaOID, 16, some, func(a *array, one T) { a.text(of(one)) })
}

func textsOrNull[T any](some []T, of func(T) string) *array {
	return columnOf(pgtype.ByteaOID, 16, some, func(a *array, one T) {
		if s := of(one); s != "" {
			a.text(s)
		} else {
			a.null()
		}
	})
}

func bytesOrNull[T any](some []T, of func(T) []byte) *array {
	return columnOf(pgtype.ByteaOID, 16, some, func(a *array, one T) { a.orNull(of(one)) })
}

func itself[T any](one T) T { return one }

// arrayCodec encodes values of type array, and leaves all others to the codec of the driver.
type arrayCodec struct{ pgtype.Codec }

func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(*array); !ok {
		return c.Codec.PlanEncode(m, oid, format, value)
	}
	if format != pgtype.BinaryFormatCode {
		return nil
	}
	return arrayPlan{}
}

type arrayPlan struct{}

func (arrayPlan) Encode(value any, b []byte) ([]byte, error) {
	return append(b, value.(*array).bytes...), nil
}

// registerArrays makes a connection accept values of type array.
func registerArrays(_ context.Context, c *pgx.Conn) error {
	m := c.TypeMap()
	for _, oid := range []uint32{
		pgtype.UUIDArrayOID, pgtype.Int8ArrayOID, pgtype.Int4ArrayOID, pgtype.Int2ArrayOID, pgtype.BoolArrayOID, pgtype.ByteaArrayOID, pgtype.TextArrayOID,
	} {
		t, ok := m.TypeForOID(oid)
		if !ok {
			return fmt.Errorf("the driver does not know the type %d", oid)
		}
		if _, done := t.Codec.(arrayCodec); done {
			continue
		}
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: arrayCodec{t.Codec}})
	}
	return nil
}
