package election

import (
	"encoding/binary"
	"errors"
	"time"
)

// MaxLease is the longest lease.
const MaxLease = time.Hour

// version is the first byte of a message. Messages of other versions are not understood.
const version = 1

// MaxSize is the size of the largest message.
const MaxSize = 2 + 16 + 2*binary.MaxVarintLen64

var errMessage = errors.New("not a message of an election")

// Append appends the encoded message.
func (m Message) Append(b []byte) []byte {
	b = append(b, version, byte(m.Kind))
	b = append(b, m.From[:]...)
	b = binary.AppendUvarint(b, m.Seq)
	return binary.AppendUvarint(b, uint64(m.Lease))
}

// Decode returns the message that Append has encoded.
func Decode(b []byte) (m Message, err error) {
	const head = 2 + len(m.From)
	if len(b) < head || b[0] != version {
		return Message{}, errMessage
	}
	m.Kind = Kind(b[1])
	copy(m.From[:], b[2:])
	seq, n := binary.Uvarint(b[head:])
	if n <= 0 {
		return Message{}, errMessage
	}
	lease, k := binary.Uvarint(b[head+n:])
	if k <= 0 || head+n+k != len(b) {
		return Message{}, errMessage
	}
	if m.Kind != Here && m.Kind != Hello && m.Kind != Bye || m.From.IsZero() || lease == 0 || lease > uint64(MaxLease) {
		return Message{}, errMessage
	}
	m.Seq, m.Lease = seq, time.Duration(lease)
	return m, nil
}
