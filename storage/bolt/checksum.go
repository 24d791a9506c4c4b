package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// Every value ends with a checksum of the key and the value, because bbolt has no checksums of data.

const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// appendSummed appends a value with its checksum, as it is stored.
func appendSummed(b, key, value []byte) []byte {
	b = append(b, value...)
	return binary.LittleEndian.AppendUint32(b, sumOf(key, value))
}

// checked returns the value without its checksum, and an error if the checksum is wrong.
func checked(key, stored []byte) ([]byte, error) {
	end := len(stored) - sumSize
	if end < 0 || binary.LittleEndian.Uint32(stored[end:]) != sumOf(key, stored[:end]) {
		return nil, fmt.Errorf("%s: %w", kv.NameOf(key), damaged("its checksum is wrong"))
	}
	return stored[:end:end], nil
}

// formatValues is the format of values. A file stores it as the sequence of the bucket, which has
// no other use here. Zero is the format before there were checksums.
const formatValues = 1

// checkFormat returns an error unless the values have the format of this program.
func checkFormat(b *bbolt.Bucket) error {
	switch format := b.Sequence(); {
	case format > formatValues:
		return fmt.Errorf("its values have format %d, this program reads %d, use the program that wrote it or a newer one: %w",
			format, formatValues, storage.ErrFormat)
	case format < formatValues:
		return errors.New("it was written by an earlier version, which had no checksums: copy the tasks to a store of another kind with " +
			"`taskengine copy` of that version, and from there to a new file with this one")
	}
	return nil
}
