package seal

import (
	"bytes"
	"context"
	"database/sql"
	"math"
	"math/bits"
	"testing"

	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// TestSealedBytesOfWinnersAndLosersCannotBeToldApart seals 100 000 tickets of which a
// quarter win, as in Bingo, and compares the tags of winners and losers by every statistic
// that a thief would begin with: the frequency of each of the 64 bits, of the 2 048 pairs
// of place and byte value, the number of ones, and a ticket's tag against its
// neighbour's. Each of the 74 is a chi-square test at 1e-8, so that chance alone fails
// fewer than one run in a million. It sees a bit that is set in 52.5 % of the winners.
func TestSealedBytesOfWinnersAndLosersCannotBeToldApart(t *testing.T) {
	const tickets = 100_000
	tiers := []manifest.Tier{{Count: 5, Amount: 100_000}, {Count: 2495, Amount: 5000}, {Count: 22_500, Amount: 2000}}
	f := newFixture(t, 600)
	var csv bytes.Buffer
	s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: tickets, FirstPack: 1, PackSize: 60, Tiers: tiers, Seed: "apart"}
	if err := s.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	f.csv = csv.Bytes()
	f.order.Prizes = func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }
	path, _ := f.seal(t)
	tags := sealedTags(t, path)
	if len(tags) != tickets {
		t.Fatalf("%d tags", len(tags))
	}
	var seen [2]struct {
		n    float64
		bit  [64]float64
		byte [8][256]float64
		ones [65]float64
		near [65]float64
	}
	i := 0
	f.eachTicket(t, func(_ ticket.Code, prize money.Amount) {
		k := 0
		if prize > 0 {
			k = 1
		}
		tag := tags[i]
		seen[k].n++
		for b := range 64 {
			seen[k].bit[b] += float64(tag >> b & 1)
		}
		for b := range 8 {
			seen[k].byte[b][tag>>(8*b)&0xff]++
		}
		seen[k].ones[bits.OnesCount64(tag)]++
		if i > 0 {
			seen[k].near[bits.OnesCount64(tag^tags[i-1])]++
		}
		i++
	})
	for b := range 64 {
		a, c := []float64{seen[0].bit[b], seen[0].n - seen[0].bit[b]}, []float64{seen[1].bit[b], seen[1].n - seen[1].bit[b]}
		checkApart(t, "bit", b, a, c)
	}
	for b := range 8 {
		checkApart(t, "byte", b, seen[0].byte[b][:], seen[1].byte[b][:])
	}
	checkApart(t, "ones", 0, seen[0].ones[18:47], seen[1].ones[18:47])
	checkApart(t, "neighbour", 0, seen[0].near[18:47], seen[1].near[18:47])
}

// sealedTags reads all tags as a thief would.
func sealedTags(t *testing.T, path string) (tags []uint64) {
	t.Helper()
	db := openRaw(t, path)
	rows, err := db.QueryContext(context.Background(), "SELECT sealed FROM chunks ORDER BY chunk")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var chunk []byte
		if err := rows.Scan(&chunk); err != nil {
			t.Fatal(err)
		}
		for ; len(chunk) > 0; chunk = chunk[8:] {
			tag := uint64(0)
			for _, b := range chunk[:8] {
				tag = tag<<8 | uint64(b)
			}
			tags = append(tags, tag)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tags
}

// checkApart is the chi-square test that two counts come from one distribution, at 1e-8
// by Wilson and Hilferty's approximation.
func checkApart(t *testing.T, what string, which int, a, b []float64) {
	t.Helper()
	var na, nb float64
	for i := range a {
		na, nb = na+a[i], nb+b[i]
	}
	x, classes := 0.0, 0.0
	for i := range a {
		if a[i]+b[i] == 0 {
			continue
		}
		d := math.Sqrt(nb/na)*a[i] - math.Sqrt(na/nb)*b[i]
		x += d * d / (a[i] + b[i])
		classes++
	}
	k := classes - 1
	if z := (math.Cbrt(x/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k)); z > 5.612 {
		t.Errorf("%s %d: winners and losers differ (chi-square %.1f, %v degrees of freedom, z %.1f)", what, which, x, k, z)
	}
}

func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
