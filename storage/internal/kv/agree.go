package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
)

// agrees reads the whole store once. It reports whether the store has exactly the keys and values that the rows require. It compares sums of hashes of
// 128 bits, so that its memory does not grow with the rows. It also reports false, without a reason, if a key cannot be read or found, or is out of order.
func (v *View) agrees(progress func(rows int64) error) (ok bool, err error) {
	p := pass{View: v, progress: progress, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, derived: newDerived()}
	c, err := v.r.Scan(nil, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if p.seek, err = v.r.Scan(nil, nil); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.seek.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		if p.before != nil && bytes.Compare(p.before, c.Key()) >= 0 {
			return false, nil
		}
		p.before = append(p.before[:0], c.Key()...)
		if agrees, err := p.see(c); err != nil || !agrees {
			return false, err
		}
	}
	if err := c.Err(); err != nil {
		return false, err
	}
	p.counters(p.expect)
	if p.logBytes > 0 {
		p.expect(keyLogBytes, appendNumber(nil, p.logBytes))
	}
	return p.expected == p.existing, nil
}

// rowsOfProgress is after how many rows a check reports its progress.
const rowsOfProgress = 1000

// pass is a pass over all keys.
type pass struct {
	*View
	derived
	seeds              [2]maphash.Seed
	expected, existing [2]uint64 // sums of the hashes of keys with their values
	seek               Cursor    // for lookups of keys that verbs find by scans alone
	before             []byte    // the key before; nil before the first
	rows               int64     // that were read
	logBytes           uint64    // of pieces of logs that were read
	progress           func(rows int64) error
	buf                []byte // scratch
}

func (p *pass) expect(key, value []byte) { p.add(&p.expected, key, value) }

func (p *pass) add(to *[2]uint64, key, value []byte) {
	p.buf = append(append(binary.AppendUvarint(p.buf[:0], uint64(len(key))), key...), value...)
	for i, seed := range p.seeds {
		to[i] += maphash.Bytes(seed, p.buf)
	}
}

// see takes the key at the cursor into account. It reports false if it is damaged.
func (p *pass) see(c Cursor) (ok bool, err error) {
	key := c.Key()
	value, err := c.Value()
	if err == nil && key[0] == prefixRecord {
		err = p.record(key, value)
	}
	if err != nil {
		return false, undamaged(err)
	}
	switch key[0] {
	case prefixReady, prefixDue, prefixNever, prefixSeat, prefixKind, prefixFailed, prefixSearch, prefixLog, prefixLogTime:
		if !p.seek.Seek(key) || !bytes.Equal(p.seek.Key(), key) {
			return false, undamaged(p.seek.Err())
		}
	default:
		var same []byte
		if key[0] != prefixRecord {
			same = value
		}
		if err := p.ask(key, same); err != nil {
			return false, undamaged(err)
		}
	}
	switch key[0] {
	case prefixRecord:
	case prefixMeta:
		if bytes.Equal(key, keyLogBytes) {
			p.add(&p.existing, key, value)
		}
	case prefixLog:
		piece, _, err := pieceAt(c)
		if err != nil {
			return false, undamaged(err)
		}
		p.logBytes += uint64(piece.size)
		p.expect(appendLogTimeKey(nil, piece.at, piece.task), appendNumber(nil, uint64(piece.size)))
	case prefixCheckpoint, prefixChildren, prefixSignals, prefixHistory, prefixResult, prefixPayload:
		p.add(&p.existing, key, nil)
	default:
		p.add(&p.existing, key, value)
	}
	return true, nil
}

// undamaged returns err unless it says that the store is damaged.
func undamaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		return nil
	}
	return err
}

// record expects the keys of a row.
func (p *pass) record(key, value []byte) error {
	id, err := idOf(key)
	if err != nil {
		return err
	}
	r, err := decodeRecord(id, value, &p.db.intern)
	if err != nil {
		return err
	}
	if p.rows++; p.progress != nil && p.rows%rowsOfProgress == 0 {
		if err := p.progress(p.rows); err != nil {
			return err
		}
	}
	p.addRow(r, p.expect)
	return nil
}
