package main

import (
	"encoding/binary"
	"testing"
)

func TestRootIsReadFromTheKernelsLine(t *testing.T) {
	got, err := parseRoot("console=tty0 root=PARTUUID=47525454-03 ro rauc.slot=B panic=5\n")
	if err != nil || got != (place{0x47525454, 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, line := range []string{"", "root=/dev/sda1", "root=PARTUUID=47525454", "root=PARTUUID=47525454-00", "root=PARTUUID=x-02"} {
		if got, err := parseRoot(line); err == nil {
			t.Errorf("%q: %+v: want an error", line, got)
		}
	}
}

// TestDataPartitionGrowsWithTheCardAndNeverShrinks, and nothing else in the table changes.
func TestDataPartitionGrowsWithTheCardAndNeverShrinks(t *testing.T) {
	const mib = 1 << 20
	table := func(start, size int64) []byte {
		sector := make([]byte, 512)
		for i := range sector {
			sector[i] = byte(i)
		}
		binary.LittleEndian.PutUint32(sector[446+48+8:], uint32(start/512))
		binary.LittleEndian.PutUint32(sector[446+48+12:], uint32(size/512))
		return sector
	}
	for _, c := range []struct{ card, want int64 }{
		{2048 * mib, 1048 * mib}, {2048*mib + 700*1024, 1048 * mib}, {1064 * mib, 64 * mib}, {900 * mib, 64 * mib}, {1 << 41, 1<<40 - 1000*mib},
	} {
		sector := table(1000*mib, 64*mib)
		changed := stretch(sector, c.card)
		if got := int64(binary.LittleEndian.Uint32(sector[446+48+12:])) * 512; got != c.want || changed != (c.want != 64*mib) {
			t.Errorf("a card of %d: the partition has %d bytes, changed %v: want %d", c.card, got, changed, c.want)
		}
		binary.LittleEndian.PutUint32(sector[446+48+12:], uint32(64*mib/512))
		if string(sector) != string(table(1000*mib, 64*mib)) {
			t.Errorf("a card of %d: something else in the table changed", c.card)
		}
	}
	if empty := make([]byte, 512); stretch(empty, 1<<31) {
		t.Error("a table without a fourth partition was changed")
	}
}
