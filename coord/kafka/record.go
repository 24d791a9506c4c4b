package kafka

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/hints"
	"github.com/taskengine/taskengine/task"
)

// version is the first byte of a record. The kind of the record, the mark of the cluster and the content follow.
const version = 1

// The kinds of records.
const (
	kindHints   = 'h' // a piece of package hints
	kindMessage = 'm' // the length of the topic as a varint, the topic, and the message
	kindHello   = 'o' // nothing: a node has connected
)

// maxPiece is how many bytes the hints of a record have at most.
const maxPiece = 16 << 10

var errNoRecord = errors.New("it is no record of a node")

// mark stands for a cluster in records.
type mark [16]byte

func markOf(cluster string) mark {
	sum := sha256.Sum256([]byte(cluster))
	return mark(sum[:])
}

// head returns the beginning of the value of a record, with room for more.
func (m mark) head(kind byte, room int) []byte {
	return append(append(make([]byte, 0, 2+len(m)+room), version, kind), m[:]...)
}

// hintValues returns the values of records with these hints.
func (m mark) hintValues(hs []task.Hint) (values [][]byte) {
	for _, piece := range hints.Pack(hs, maxPiece) {
		values = append(values, append(m.head(kindHints, len(piece)), piece...))
	}
	return values
}

// messageValue returns the value of a record with a message.
func (m mark) messageValue(topic string, message []byte) []byte {
	b := binary.AppendUvarint(m.head(kindMessage, binary.MaxVarintLen64+len(topic)+len(message)), uint64(len(topic)))
	return append(append(b, topic...), message...)
}

// received is what a record has: hints, or a message. It has neither if it is of another cluster.
type received struct {
	hints   []task.Hint
	topic   string
	message []byte // nil: none
}

// decode decodes the value of a record. With an error it returns the hints before the first mistake.
func (m mark) decode(value []byte) (r received, err error) {
	if len(value) < 2+len(m) {
		return r, errNoRecord
	}
	if value[0] != version {
		return r, fmt.Errorf("it has version %d, and this program knows %d", value[0], version)
	}
	kind, rest := value[1], value[2+len(m):]
	if mark(value[2:]) != m {
		return r, nil
	}
	switch kind {
	case kindHello:
		return r, nil
	case kindHints:
		r.hints, err = hints.Unpack(rest)
		return r, err
	case kindMessage:
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return r, errNoRecord
		}
		rest = rest[size:]
		r.topic, r.message = string(rest[:n]), append([]byte{}, rest[n:]...)
		return r, coord.CheckMessage(r.topic, r.message)
	}
	return r, fmt.Errorf("%w: its kind is %q", errNoRecord, kind)
}

// partitionOf returns the partition for a hint, of so many.
func partitionOf(h *task.Hint, partitions int32) int32 {
	shard, ok := coord.AboutShard(h)
	if !ok {
		return 0
	}
	return ofShard(shard, partitions)
}

func ofShard(shard uint16, partitions int32) int32 {
	return int32(shard%task.ShardCount) % partitions
}

// needed returns the partitions that a node reads which needs hints of these shards; nil is all shards.
func needed(shards *task.Shards, partitions int32) map[int32]bool {
	all := map[int32]bool{0: true}
	for shard := range uint16(task.ShardCount) {
		if shards.Has(shard) {
			all[ofShard(shard, partitions)] = true
		}
	}
	return all
}
