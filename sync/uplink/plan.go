package uplink

import (
	"cmp"
	"slices"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/policy"
)

// Why says for what reason a block that central lists is not in the folder.
type Why string

const (
	WhyComing  Why = "coming"  // it is being fetched, or next
	WhyQuota   Why = "quota"   // better wanted blocks fill the quota
	WhyDisk    Why = "disk"    // the quota would allow it, the disk is full
	WhyProgram Why = "program" // it needs a newer program
)

// Missing is a block that central lists and the folder lacks. Its tickets are answered
// with block-not-here.
type Missing struct {
	GameCode  string
	FirstPack uint32
	LastPack  uint32
	Size      int64
	Own       bool // this terminal has packs of it
	Why       Why
}

// held is a block file of central's in the folder.
type held struct {
	name string // SHA-256
	size int64
	Held // what its header says; zero when nobody could tell
}

// situation is all that the choice of blocks depends on.
type situation struct {
	listed []wire.Block
	have   []held
	packs  []wire.PackItem // of this terminal
	region string
	room   int64       // bytes that the files may take
	why    Why         // what a block lacks that does not fit: WhyQuota or WhyDisk
	today  policy.Date // not later than the true day; zero when no time is trusted
}

// plan is what is to be done to the folder.
type plan struct {
	keep    []string
	fetch   []wire.Block // most wanted first
	gone    []string     // to be dropped whatever the room: past their day, or replaced
	drop    []held       // to be dropped for room, least wanted first
	kept    int64        // bytes of what is kept and counts
	coming  int64        // bytes of what is fetched
	missing []Missing
}

// leaving names what must go before a block of so many bytes comes: what is past its day,
// and of the least wanted as many as make the room.
func (p plan) leaving(room, size int64) []string {
	gone, left := p.gone, p.kept+size
	for _, h := range p.drop {
		left += h.size
	}
	for _, h := range p.drop {
		if left <= room {
			break
		}
		gone, left = append(gone, h.name), left-h.size
	}
	return gone
}

// The classes of wish, the most wanted first.
const (
	ofOwnPacks = iota // this terminal has packs of it: without it they are not paid
	ofRegion          // players buy and cash within a region
	ofElsewhere
	ofNoList // central has put another file in its place, or forgotten it
)

// wish is a block and how much it is wanted.
type wish struct {
	wire.Block
	class  int
	listed bool
	have   bool
	sound  bool   // it is here and answers
	before []held // files here of an earlier issue of it
}

// choose decides which blocks the folder should hold. Own packs come first, then the
// region, then the rest; in each the block published last, then the one with the higher
// packs: it is the one on sale. A block is taken if it fits beside all that are more
// wanted. What is here of own packs stays, even over the room. A block past its day goes
// even if there is room and whoever's its packs are: nobody can claim its prizes, and a
// pack that was never handed back would keep it for ever.
//
// An earlier issue of a block stays until the new one answers, without counting beside
// it, so that there is no moment without either.
func choose(s situation) plan {
	var p plan
	wishes := s.wishes(&p)
	for _, w := range wishes { // own blocks that are here, whatever else is wanted
		if w.class == ofOwnPacks {
			p.hold(w.here()...)
		}
	}
	for _, w := range wishes {
		switch {
		case w.have && w.class == ofOwnPacks: // held above
		case w.have:
			p.holdIfRoom(held{name: w.SHA256, size: w.Size}, s.room)
		case w.Reader > manifest.Version:
			p.lack(w, WhyProgram)
		case p.kept+p.coming-w.earlier()+w.Size > s.room:
			p.lack(w, s.why)
		default:
			p.fetch, p.coming = append(p.fetch, w.Block), p.coming+w.Size
			p.lack(w, WhyComing)
			if w.class == ofOwnPacks {
				p.kept -= w.earlier() // held above, and gone when the new issue is here
			} else {
				for _, h := range w.before {
					p.keep = append(p.keep, h.name)
				}
			}
			continue
		}
		for _, h := range w.before {
			if w.class != ofOwnPacks {
				p.holdIfRoom(h, s.room)
			}
		}
	}
	slices.Reverse(p.drop)
	return p
}

// here is what the folder has of the wish.
func (w wish) here() []held {
	list := slices.Clone(w.before)
	if w.have {
		list = append(list, held{name: w.SHA256, size: w.Size})
	}
	return list
}

// earlier is the size of the earlier issues that count already.
func (w wish) earlier() (n int64) {
	if w.class != ofOwnPacks {
		return 0
	}
	for _, h := range w.before {
		n += h.size
	}
	return n
}

func (p *plan) hold(list ...held) {
	for _, h := range list {
		p.keep = append(p.keep, h.name)
		p.kept += h.size
	}
}

func (p *plan) holdIfRoom(h held, room int64) {
	if p.kept+p.coming+h.size <= room {
		p.hold(h)
	} else {
		p.drop = append(p.drop, h)
	}
}

func (p *plan) lack(w wish, why Why) {
	p.missing = append(p.missing, Missing{GameCode: w.GameCode, FirstPack: w.FirstPack, LastPack: w.LastPack, Size: w.Size, Own: w.class == ofOwnPacks, Why: why})
}

// wishes lists what may be held, the most wanted first. What is to go at once it puts
// into the plan instead.
func (s situation) wishes(p *plan) []wish {
	here := map[string]held{}
	for _, h := range s.have {
		here[h.name] = h
	}
	var list []wish
	past := map[int]bool{}
	for _, b := range s.listed {
		h, have := here[b.SHA256]
		delete(here, b.SHA256)
		past[len(list)] = !s.today.IsZero() && !b.DropAfter.IsZero() && b.DropAfter.Before(s.today)
		list = append(list, wish{Block: b, class: s.class(b), listed: true, have: have, sound: have && h.Sound})
	}
	for _, h := range s.have {
		if _, unlisted := here[h.name]; !unlisted {
			continue
		}
		next := slices.IndexFunc(list, func(w wish) bool {
			return w.listed && w.GameCode == h.GameCode && w.FirstPack <= h.LastPack && h.FirstPack <= w.LastPack
		})
		switch {
		case next < 0:
			b := wire.Block{SHA256: h.name, Size: h.size, GameCode: h.GameCode, FirstPack: h.FirstPack, LastPack: h.LastPack}
			w := wish{Block: b, class: ofNoList, have: true, sound: h.Sound}
			if s.class(b) == ofOwnPacks {
				w.class = ofOwnPacks
			}
			list = append(list, w)
		case list[next].sound:
			p.gone = append(p.gone, h.name)
		default:
			list[next].before = append(list[next].before, h)
		}
	}
	var kept []wish
	for i, w := range list {
		if !past[i] {
			kept = append(kept, w)
			continue
		}
		for _, h := range w.here() {
			p.gone = append(p.gone, h.name)
		}
	}
	slices.SortStableFunc(kept, func(a, b wish) int {
		return cmp.Or(cmp.Compare(a.class, b.class), later(a.Published, b.Published), cmp.Compare(b.FirstPack, a.FirstPack), cmp.Compare(a.SHA256, b.SHA256))
	})
	return kept
}

func later(a, b policy.Date) int {
	switch {
	case b.Before(a):
		return -1
	case a.Before(b):
		return 1
	}
	return 0
}

// class says how much a block is wanted. A pack counts as this terminal's in every state
// but returned: settled packs are still paid, stolen ones must be refused and not
// answered with a missing block, and a delivered one may be put on sale at any moment. A
// pack that was sent back is not paid here any more.
func (s situation) class(b wire.Block) int {
	for _, p := range s.packs {
		if p.State != validate.PackReturn && p.GameCode == b.GameCode && b.FirstPack <= p.Last && p.First <= b.LastPack {
			return ofOwnPacks
		}
	}
	if slices.Contains(b.Regions, s.region) {
		return ofRegion
	}
	return ofElsewhere
}
