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

// Every value ends with a checksum of its key and itself: the file has none of its own.

const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// appendSummed appends a value as the file has it.
func appendSummed(b, key, value []byte) []byte {
	b = append(b, value...)
	return binary.LittleEndian.AppendUint32(b, sumOf(key, value))
}

// checked returns the value of what the file has under key.
func checked(key, stored []byte) ([]byte, error) {
	end := len(stored) - sumSize
	if end < 0 || binary.LittleEndian.Uint32(stored[end:]) != sumOf(key, stored[:end]) {
		return nil, fmt.Errorf("%s: %w", kv.NameOf(key), damaged("its checksum is another one"))
	}
	return stored[:end:end], nil
}

// formatValues is how values are kept. The sequence of the bucket, which has no other use
// here, says it for the file; zero is from before there were checksums.
const formatValues = 1

// checkFormat returns an error unless values are kept as this program does.
func checkFormat(b *bbolt.Bucket) error {
	switch format := b.Sequence(); {
	case format > formatValues:
		return fmt.Errorf("its values have format %d, this program reads %d, use the program that wrote it or a newer one: %w",
			format, formatValues, storage.ErrFormat)
	case format < formatValues:
		return errors.New("it was written by an earlier version, which kept no checksums: with that, bring the tasks to a store " +
			"of another kind by `taskengine copy`, and with this one back to a new file")
	}
	return nil
}
