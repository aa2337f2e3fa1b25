package seal

import (
	"fmt"
	"strconv"
	"strings"

	"grattoir/validate/manifest"
)

// Missing is a run of tickets of one pack that a printer did not deliver.
type Missing struct {
	Pack        uint32
	First, Last int // -1, -1: the whole pack
}

// maxMissing bounds the tickets that may be missing in a block. A printer that loses more
// has lost the block.
const maxMissing = 100_000

// ParseMissing reads a list as people write it: "12:3, 12:7-9, 15" are ticket 3 and
// tickets 7 to 9 of pack 12, and the whole of pack 15.
func ParseMissing(text string) (out []Missing, err error) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' }) {
		m := Missing{First: -1, Last: -1}
		packText, tickets, some := strings.Cut(word, ":")
		pack, err := strconv.ParseUint(packText, 10, 32)
		if err == nil && some {
			first, last, span := strings.Cut(tickets, "-")
			if !span {
				last = first
			}
			if m.First, err = strconv.Atoi(first); err == nil {
				m.Last, err = strconv.Atoi(last)
			}
			if err == nil && (m.First < 0 || m.Last < m.First || m.Last > 10000) {
				err = fmt.Errorf("tickets %d to %d", m.First, m.Last)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("missing ticket %.30q: want PACK, PACK:TICKET or PACK:FIRST-LAST", word)
		}
		m.Pack = uint32(pack)
		out = append(out, m)
	}
	return out, nil
}

// tickets is how many tickets the run has in packs of a size.
func (m Missing) tickets(packSize int) int64 {
	if m.First < 0 {
		return int64(packSize)
	}
	return int64(m.Last-m.First) + 1
}

func countMissing(list []Missing, packSize int) (n int64) {
	for _, m := range list {
		n += m.tickets(packSize)
	}
	return n
}

// absent gives the indexes of the tickets that are named as missing, and refuses one that
// tickets.csv has, or that is in no pack of the block.
func absent(list []Missing, owner []uint32, h manifest.Header) (map[int64]bool, error) {
	if n := countMissing(list, h.PackSize); n > maxMissing {
		return nil, fmt.Errorf("%d tickets are named as missing, at most %d", n, maxMissing)
	}
	out := map[int64]bool{}
	for _, m := range list {
		if m.First < 0 {
			m.First, m.Last = h.FirstTicket, h.FirstTicket+h.PackSize-1
		}
		for t := m.First; t <= m.Last; t++ {
			i := (int64(m.Pack)-int64(h.FirstPack))*int64(h.PackSize) + int64(t-h.FirstTicket)
			switch {
			case t < h.FirstTicket || t >= h.FirstTicket+h.PackSize || i < 0 || i >= int64(len(owner)):
				return nil, fmt.Errorf("pack %d ticket %d is named as missing, but no pack of the block has it (packs of %d from pack %d)", m.Pack, t, h.PackSize, h.FirstPack)
			case owner[i] != 0:
				return nil, fmt.Errorf("line %d: pack %d ticket %d is there, though it is named as missing", line(int64(owner[i]-1)), m.Pack, t)
			}
			out[i] = true
		}
	}
	return out, nil
}
