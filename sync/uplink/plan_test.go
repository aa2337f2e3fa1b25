package uplink

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

func day(n int) policy.Date { return policy.Date{Year: 2026, Month: time.June, Day: n} }

// block is one of game code "100" with ten packs from first on, published on a day of June.
func block(name string, size int64, first uint32, published int, edit ...func(*wire.Block)) wire.Block {
	b := wire.Block{SHA256: name, Size: size, GameCode: "100", Reader: 1, FirstPack: first, LastPack: first + 9, Published: day(published)}
	for _, e := range edit {
		e(&b)
	}
	return b
}

func in(regions ...string) func(*wire.Block) { return func(b *wire.Block) { b.Regions = regions } }
func until(d int) func(*wire.Block)          { return func(b *wire.Block) { b.DropAfter = day(d) } }
func newer(b *wire.Block)                    { b.Reader = 1000 }

func pack(first, last uint32, state validate.PackState) wire.PackItem {
	return wire.PackItem{GameCode: "100", First: first, Last: last, State: state, Owner: "T-1"}
}

// file is here: of a listed block, or of ten packs from first on.
func file(name string, size int64, first uint32) held {
	return held{name, size, Held{GameCode: "100", FirstPack: first, LastPack: first + 9, Sound: true}}
}

func TestWhatTheFolderHolds(t *testing.T) {
	strange := held{name: "strange", size: 10}
	for name, c := range map[string]struct {
		s                                 situation
		keep, fetch, gone, drop, lackRoom string // names, in order for fetch and drop
	}{
		"nothing listed, nothing here": {s: situation{room: 100}},
		"everything fits, the newest comes first": {
			s:     situation{room: 100, listed: []wire.Block{block("a", 10, 10, 1), block("b", 10, 20, 2), block("c", 10, 30, 2)}},
			fetch: "c b a"},
		"own packs before the region before the rest": {
			s: situation{room: 20, region: "bzh", packs: []wire.PackItem{pack(15, 15, validate.PackActive)},
				listed: []wire.Block{block("own", 10, 10, 1), block("bzh", 10, 20, 2, in("bzh", "idf")), block("idf", 10, 30, 3, in("idf"))}},
			fetch: "own bzh", lackRoom: "idf"},
		"a terminal of no region sees none": {
			s:     situation{room: 10, listed: []wire.Block{block("a", 10, 10, 1, in("bzh")), block("b", 10, 20, 2)}},
			fetch: "b", lackRoom: "a"},
		"a delivered pack pins its block, a settled and a stolen one too": {
			s: situation{room: 0, packs: []wire.PackItem{pack(10, 10, validate.PackDelivered), pack(20, 20, validate.PackSettled), pack(30, 30, validate.PackStolenNow)},
				listed: []wire.Block{block("a", 10, 10, 1), block("b", 10, 20, 1), block("c", 10, 30, 1)}, have: []held{file("a", 10, 10), file("b", 10, 20), file("c", 10, 30)}},
			keep: "a b c"},
		"a returned pack pins nothing": {
			s: situation{room: 10, packs: []wire.PackItem{pack(10, 19, validate.PackReturn)}, have: []held{file("a", 10, 10)},
				listed: []wire.Block{block("a", 10, 10, 1), block("b", 10, 20, 2)}},
			fetch: "b", drop: "a"},
		"a pack of another game code is another block's": {
			s:     situation{room: 10, packs: []wire.PackItem{{GameCode: "200", First: 10, Last: 19, State: validate.PackActive}}, listed: []wire.Block{block("a", 10, 10, 1), block("b", 10, 20, 2)}},
			fetch: "b", lackRoom: "a"},
		"what is here of own packs stays over the room, what is not must fit": {
			s: situation{room: 15, packs: []wire.PackItem{pack(10, 29, validate.PackActive)}, have: []held{file("a", 10, 10)},
				listed: []wire.Block{block("a", 10, 10, 1), block("b", 10, 20, 2)}},
			keep: "a", lackRoom: "b"},
		"the least wanted go first, and no more than must": {
			s: situation{room: 40, packs: []wire.PackItem{pack(50, 50, validate.PackActive)},
				have:   []held{file("a", 10, 10), file("b", 10, 20), file("c", 10, 30), file("d", 10, 40)},
				listed: []wire.Block{block("a", 10, 10, 2), block("b", 10, 20, 1), block("c", 10, 30, 4), block("d", 10, 40, 3), block("own", 15, 50, 1)}},
			fetch: "own", keep: "c d", drop: "b a"},
		"a small one takes the room that a large one cannot use": {
			s:     situation{room: 25, listed: []wire.Block{block("large", 20, 10, 3), block("next", 10, 20, 2), block("small", 5, 30, 1)}},
			fetch: "large small", lackRoom: "next"},
		"a block past its day goes though there is room, and though its packs are here": {
			s: situation{room: 100, today: day(11), packs: []wire.PackItem{pack(10, 10, validate.PackActive)}, have: []held{file("a", 10, 10), file("b", 10, 20)},
				listed: []wire.Block{block("a", 10, 10, 1, until(10)), block("b", 10, 20, 1, until(11)), block("c", 10, 30, 1, until(10))}},
			keep: "b", gone: "a"},
		"with no trusted time no day is past": {
			s:     situation{room: 100, have: []held{file("a", 10, 10)}, listed: []wire.Block{block("a", 10, 10, 1, until(1)), block("b", 10, 20, 1, until(1))}},
			fetch: "b", keep: "a"},
		"a file that is not listed stays while there is room": {
			s:    situation{room: 30, have: []held{strange, file("old", 10, 90)}, listed: []wire.Block{block("a", 10, 10, 1)}},
			keep: "strange old", fetch: "a"},
		"and goes before any other": {
			s:    situation{room: 20, have: []held{strange, file("a", 10, 10)}, listed: []wire.Block{block("a", 10, 10, 1), block("b", 10, 20, 1)}},
			keep: "a", fetch: "b", drop: "strange"},
		"unless this terminal has packs of it": {
			s:    situation{room: 10, packs: []wire.PackItem{pack(90, 90, validate.PackActive)}, have: []held{file("old", 10, 90)}, listed: []wire.Block{block("a", 10, 10, 1)}},
			keep: "old", lackRoom: "a"},
		"a file of another game code is no earlier issue": {
			s:    situation{room: 30, have: []held{{"other", 10, Held{"200", 10, 19, true}}}, listed: []wire.Block{block("a", 10, 10, 1)}},
			keep: "other", fetch: "a"},
		"an earlier issue stays until the new one is here, beside the room": {
			s:    situation{room: 10, packs: []wire.PackItem{pack(10, 10, validate.PackActive)}, have: []held{file("first", 10, 10)}, listed: []wire.Block{block("second", 10, 10, 1)}},
			keep: "first", fetch: "second"},
		"also of a block that nobody here has packs of": {
			s:    situation{room: 10, have: []held{file("first", 10, 10)}, listed: []wire.Block{block("second", 10, 10, 1)}},
			keep: "first", fetch: "second"},
		"then it goes": {
			s:    situation{room: 100, packs: []wire.PackItem{pack(10, 10, validate.PackActive)}, have: []held{file("first", 10, 10), file("second", 10, 10)}, listed: []wire.Block{block("second", 10, 10, 1)}},
			keep: "second", gone: "first"},
		"but not before the new one answers": {
			s:    situation{room: 100, have: []held{file("first", 10, 10), {name: "second", size: 10}}, listed: []wire.Block{block("second", 10, 10, 1)}},
			keep: "first second"},
		"an earlier issue stays where the new one does not fit": {
			s:    situation{room: 10, have: []held{file("first", 10, 10)}, listed: []wire.Block{block("second", 11, 10, 1)}},
			keep: "first", lackRoom: "second"},
		"and where it needs a newer program": {
			s:    situation{room: 100, have: []held{file("first", 10, 10)}, listed: []wire.Block{block("second", 10, 10, 1, newer)}},
			keep: "first"},
		"an earlier issue goes with its block": {
			s:    situation{room: 100, today: day(11), have: []held{file("first", 10, 10)}, listed: []wire.Block{block("second", 10, 10, 1, until(10))}},
			gone: "first"},
		"files brought by hand may take it all": {
			s:    situation{room: -50, have: []held{file("a", 10, 10)}, listed: []wire.Block{block("a", 10, 10, 1), block("b", 1, 20, 1)}},
			drop: "a", lackRoom: "b"},
	} {
		c.s.why = WhyQuota
		p := choose(c.s)
		slices.Sort(p.keep)
		var fetch, drop, lack []string
		for _, b := range p.fetch {
			fetch = append(fetch, b.SHA256)
		}
		for _, h := range p.drop {
			drop = append(drop, h.name)
		}
		for _, m := range p.missing {
			if m.Why == WhyQuota {
				at := slices.IndexFunc(c.s.listed, func(b wire.Block) bool { return b.FirstPack == m.FirstPack })
				lack = append(lack, c.s.listed[at].SHA256)
			}
		}
		keep := strings.Fields(c.keep)
		slices.Sort(keep)
		got := []string{strings.Join(p.keep, " "), strings.Join(fetch, " "), strings.Join(p.gone, " "), strings.Join(drop, " "), strings.Join(lack, " ")}
		if want := []string{strings.Join(keep, " "), c.fetch, c.gone, c.drop, c.lackRoom}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got keep, fetch, gone, drop, missing %q\nwant %q", name, got, want)
		}
	}
}

// scene draws a situation: disjoint listed blocks, files of some of them, earlier issues,
// strangers, packs in any state.
func scene(t *rapid.T) situation {
	s := situation{why: WhyQuota, region: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "region"), room: rapid.Int64Range(-20, 250).Draw(t, "room")}
	if rapid.Bool().Draw(t, "trusted") {
		s.today = day(rapid.IntRange(1, 28).Draw(t, "today"))
	}
	size := rapid.Int64Range(1, 50)
	for i := range rapid.IntRange(0, 9).Draw(t, "listed") {
		b := block(fmt.Sprintf("b%d", i), size.Draw(t, "size"), uint32(10*i), rapid.IntRange(1, 5).Draw(t, "published"))
		b.GameCode = rapid.SampledFrom([]string{"100", "200"}).Draw(t, "code")
		if rapid.IntRange(0, 3).Draw(t, "closed") == 0 {
			b.DropAfter = day(rapid.IntRange(1, 28).Draw(t, "until"))
		}
		if rapid.IntRange(0, 5).Draw(t, "newer") == 0 {
			b.Reader = 1000
		}
		b.Regions = rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"a", "b"}}).Draw(t, "regions")
		s.listed = append(s.listed, b)
		what := Held{b.GameCode, b.FirstPack, b.LastPack, rapid.Bool().Draw(t, "sound")}
		if rapid.Bool().Draw(t, "here") {
			s.have = append(s.have, held{b.SHA256, b.Size, what})
		}
		for n := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "earlier") {
			s.have = append(s.have, held{fmt.Sprintf("e%d-%d", i, n), size.Draw(t, "size"), what})
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "strange") {
		s.have = append(s.have, held{fmt.Sprintf("x%d", i), size.Draw(t, "size"), rapid.SampledFrom([]Held{{}, {"100", 500, 509, true}}).Draw(t, "what")})
	}
	states := []validate.PackState{validate.PackDelivered, validate.PackActive, validate.PackSettled, validate.PackReturn, validate.PackStolenNow}
	for range rapid.IntRange(0, 3).Draw(t, "packs") {
		first := uint32(rapid.SampledFrom([]int{0, 5, 13, 20, 35, 59, 505}).Draw(t, "pack"))
		s.packs = append(s.packs, wire.PackItem{GameCode: rapid.SampledFrom([]string{"100", "200"}).Draw(t, "code"), First: first, Last: first + 3, State: rapid.SampledFrom(states).Draw(t, "state")})
	}
	return s
}

// ours and past are told again here, without the code under test.
func (s situation) ours(code string, first, last uint32) bool {
	for p := first; p <= last; p++ {
		for _, run := range s.packs {
			if run.GameCode == code && run.State != validate.PackReturn && run.First <= p && p <= run.Last {
				return true
			}
		}
	}
	return false
}

func (s situation) past(b wire.Block) bool {
	return s.today != (policy.Date{}) && b.DropAfter != (policy.Date{}) && b.DropAfter.String() < s.today.String()
}

// of finds the listed block of a file or of an earlier issue of it.
func (s situation) of(h held) (wire.Block, bool) {
	for _, b := range s.listed {
		if b.SHA256 == h.name || b.GameCode == h.GameCode && b.FirstPack == h.FirstPack && h.GameCode != "" {
			return b, true
		}
	}
	return wire.Block{}, false
}

func (s situation) rank(b wire.Block) string {
	class := 2
	if s.ours(b.GameCode, b.FirstPack, b.LastPack) {
		class = 0
	} else if s.region != "" && slices.Contains(b.Regions, s.region) {
		class = 1
	}
	return fmt.Sprintf("%d %02d %06d %s", class, 99-b.Published.Day, 999999-b.FirstPack, b.SHA256)
}

func names(list []held) (out []string) {
	for _, h := range list {
		out = append(out, h.name)
	}
	return out
}

func TestPlanKeepsItsPromisesInEverySituation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scene(t)
		p := choose(s)

		all := slices.Concat(p.keep, p.gone, names(p.drop))
		slices.Sort(all)
		here := names(s.have)
		slices.Sort(here)
		if !slices.Equal(all, here) {
			t.Fatalf("the plan is about %v, here are %v", all, here)
		}
		var ownBytes, bytes int64
		for _, h := range s.have {
			b, listed := s.of(h)
			replaced := listed && b.SHA256 != h.name && slices.ContainsFunc(s.have, func(x held) bool { return x.name == b.SHA256 && x.Sound })
			must := s.ours(h.GameCode, h.FirstPack, h.LastPack) && h.GameCode != ""
			switch going := listed && s.past(b) || replaced; {
			case going != slices.Contains(p.gone, h.name):
				t.Fatalf("%s: gone %v", h.name, !going)
			case going:
			case must && !slices.Contains(p.keep, h.name):
				t.Fatalf("%s of own packs is not kept", h.name)
			case must:
				ownBytes += h.size
			}
			bytes += h.size
		}
		for _, b := range p.fetch {
			if s.past(b) || slices.Contains(here, b.SHA256) || b.Reader > 1 {
				t.Fatalf("%s is fetched", b.SHA256)
			}
			bytes += b.Size
		}
		if p.kept+p.coming > max(s.room, ownBytes) {
			t.Fatalf("%d bytes kept and %d coming, room for %d, own %d", p.kept, p.coming, s.room, ownBytes)
		}
		if bytes <= s.room && len(p.drop) > 0 {
			t.Fatalf("%v dropped though all of it fits", names(p.drop))
		}
		s.nothingLessWantedInTheWay(t, p)
	})
}

// nothingLessWantedInTheWay: whatever lacks room would not fit even without all that is
// less wanted and may go.
func (s situation) nothingLessWantedInTheWay(t *rapid.T, p plan) {
	type counted struct {
		rank string
		size int64
		stay int64 // what it takes when it does not count: the earlier issue that it would have replaced
	}
	var list []counted
	stay := map[string]int64{}
	for _, h := range s.have {
		b, listed := s.of(h)
		coming := slices.ContainsFunc(p.fetch, func(f wire.Block) bool { return f.SHA256 == b.SHA256 })
		own := s.ours(h.GameCode, h.FirstPack, h.LastPack)
		switch {
		case !slices.Contains(p.keep, h.name):
		case coming && own:
			stay[b.SHA256] += h.size
		case coming: // goes by itself
		case own: // may not go
			list = append(list, counted{"", h.size, 0})
		case listed:
			list = append(list, counted{s.rank(b), h.size, 0})
		default:
			list = append(list, counted{"3", h.size, 0})
		}
	}
	for _, b := range p.fetch {
		list = append(list, counted{s.rank(b), b.Size, stay[b.SHA256]})
	}
	for _, m := range p.missing {
		if m.Why != WhyQuota {
			continue
		}
		at := slices.IndexFunc(s.listed, func(b wire.Block) bool { return b.FirstPack == m.FirstPack && b.GameCode == m.GameCode })
		b, left := s.listed[at], m.Size
		for _, c := range list {
			if cmp.Less(c.rank, s.rank(b)) {
				left += c.size
			} else {
				left += c.stay
			}
		}
		for _, h := range s.have { // its own earlier issue makes way for it
			if o, ok := s.of(h); ok && o.SHA256 == b.SHA256 && m.Own {
				left -= h.size
			}
		}
		if left <= s.room {
			t.Fatalf("%s of rank %q lacks room, and fits: %d of %d", b.SHA256, s.rank(b), left, s.room)
		}
	}
}

// TestPlanThatWasDoneHasNothingLeftToDo: no block comes and goes for ever.
func TestPlanThatWasDoneHasNothingLeftToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scene(t)
		for round := range 12 { // each may free room for the next block
			p := choose(s)
			if round == 11 && (len(p.fetch) > 0 || len(p.gone) > 0 || len(p.drop) > 0) {
				t.Fatalf("still fetched %v, gone %v, dropped %v", p.fetch, p.gone, names(p.drop))
			}
			s.have = slices.DeleteFunc(s.have, func(h held) bool { return !slices.Contains(p.keep, h.name) })
			for _, b := range p.fetch {
				s.have = append(s.have, held{b.SHA256, b.Size, Held{b.GameCode, b.FirstPack, b.LastPack, true}})
			}
		}
	})
}
