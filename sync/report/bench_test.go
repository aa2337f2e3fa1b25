package report

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/central/pgtest"
	"grattoir/validate/money"
)

// paidClaims is how large the country of the benchmarks is.
var paidClaims = flag.Int("claims", 100_000, "claims in central's tables before reports are measured")

const (
	countryTerminals = 30_000 // on PostgreSQL; an embedded SQLite has fleetTerminals
	countryBlocks    = 40
	countryDays      = 90
	countrySince     = 1_788_220_800 // 2026-09-01 in Unix time
)

var countryNow = time.Unix(countrySince, 0).AddDate(0, 0, countryDays).UTC()

// BenchmarkReports makes the first page of every report of a country's claims, of all time
// and of one day, and streams exports. Run it with -benchtime 3x: an iteration is one report.
func BenchmarkReports(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		dir := b.TempDir()
		c := openCountry(b, central.Options{Dir: dir}, "sqlite3", "file:"+filepath.Join(dir, "central.db")+"?_busy_timeout=5000", fleetTerminals, min(*paidClaims, 170_000)) // what ten million of a country are to 500 terminals
		measureReports(b, c, nil)
	})
	b.Run("postgres", func(b *testing.B) {
		server, database := measuredServer(b)
		measureReports(b, openCountry(b, central.Options{Dir: b.TempDir(), Database: database}, "pgx", database, countryTerminals, *paidClaims), server)
	})
}

// measuredServer is a server as a country would run it: it syncs, and knows its memory.
func measuredServer(b *testing.B) (*pgtest.Server, string) {
	server, err := pgtest.Start("shared_buffers=1GB", "max_wal_size=8GB", "maintenance_work_mem=512MB")
	if errors.Is(err, pgtest.ErrMissing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Stop(); err != nil {
			b.Error(err)
		}
	})
	database, err := server.Schema(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return server, database
}

// used is what this process and a server have used of the processor: what a machine needs
// that has nothing else to do.
func used(b *testing.B, server *pgtest.Server) time.Duration {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	if server != nil {
		theirs, err := server.ProcessorTime()
		if err != nil {
			b.Fatal(err)
		}
		total += theirs
	}
	return total
}

func measureReports(b *testing.B, db *sql.DB, server *pgtest.Server) {
	day := dayOf(countryNow.AddDate(0, 0, -7))
	days := Filter{From: day, To: day}
	for _, a := range Kinds() {
		some := days
		if a.Filters[len(a.Filters)-1] != "to" {
			some = Filter{}
		}
		b.Run(a.Name, func(b *testing.B) { measureReport(b, db, server, a.Name, Filter{}) })
		if some != (Filter{}) {
			b.Run(a.Name+"-day", func(b *testing.B) { measureReport(b, db, server, a.Name, some) })
		}
	}
	b.Run("payouts-game", func(b *testing.B) { measureReport(b, db, server, "payouts", Filter{By: "game"}) })
	month := dayOf(countryNow.AddDate(0, 0, -31))
	for _, format := range []Format{CSV, CSVFrench, JSON, XLSX} {
		b.Run("export-"+string(format), func(b *testing.B) {
			measureExport(b, db, server, "payouts", format, Filter{From: dayOf(countryNow.AddDate(0, 0, -10)), To: day})
		})
	}
	b.Run("export-game-terminal", func(b *testing.B) {
		measureExport(b, db, server, "payouts", CSV, Filter{From: month, To: day, By: "game,terminal"})
	})
	for _, name := range []string{"sync", "inventory", "settlement", "outages"} {
		b.Run("export-"+name, func(b *testing.B) { measureExport(b, db, server, name, CSV, Filter{}) })
	}
}

// measureReport makes a report's first page, with its totals.
func measureReport(b *testing.B, db *sql.DB, server *pgtest.Server, name string, f Filter) {
	rows, began := 0, used(b, server)
	for b.Loop() {
		_, all, err := First(b.Context(), db, name, f, countryNow, 500)
		if err != nil {
			b.Fatal(err)
		}
		rows = all
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
	b.ReportMetric(float64((used(b, server)-began).Milliseconds())/float64(b.N), "core-ms")
	b.ReportMetric(float64(rows), "rows")
}

// measureExport streams a report, with the most memory that was in use meanwhile.
func measureExport(b *testing.B, db *sql.DB, server *pgtest.Server, name string, format Format, f Filter) {
	rows := 0
	runtime.GC()
	began := used(b, server)
	most, end := peak(b.Context())
	for b.Loop() {
		_, n, err := Stream(b.Context(), db, name, f, countryNow, io.Discard, format, money.French)
		if err != nil {
			b.Fatal(err)
		}
		rows += n
	}
	end()
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/(used(b, server)-began).Seconds(), "rows/core-s")
	b.ReportMetric(float64(rows)/float64(b.N), "rows")
	b.ReportMetric(float64(most.Load())/(1<<20), "peak-MB")
}

// peak watches the heap until end is called.
func peak(ctx context.Context) (most *atomic.Uint64, end func()) {
	most = new(atomic.Uint64)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return most, func() { cancel(); <-done }
}

// openCountry opens a central and fills its tables by statements alone: a row a Go value
// would take an hour.
func openCountry(b testing.TB, opt central.Options, driver, name string, terminals, claims int) *sql.DB {
	c, err := central.Open(b.Context(), opt)
	if err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(db.Close(), c.Close()); err != nil {
			b.Error(err)
		}
	})
	x := country{b: b, db: db, postgres: driver == "pgx", terminals: terminals, claims: claims}
	x.fill()
	began := time.Now()
	if err := c.CountClaims(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("counted in %v", time.Since(began).Round(time.Second))
	x.analyse()
	return c.Reader()
}

type country struct {
	b                 testing.TB
	db                *sql.DB
	postgres          bool
	terminals, claims int
}

// each inserts a row for every number i below n; values names them by i, and by expressions
// that both databases need in words of their own.
func (x country) each(n int, into, values string) {
	const run = 250_000
	for from := 0; from < n; from += run {
		series := fmt.Sprintf("WITH RECURSIVE s(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM s WHERE i < %d)", from, min(from+run, n)-1)
		if x.postgres {
			series = fmt.Sprintf("WITH s(i) AS (SELECT CAST(g AS BIGINT) FROM generate_series(%d, %d) g)", from, min(from+run, n)-1)
		}
		if _, err := x.db.ExecContext(x.b.Context(), "INSERT INTO "+into+" "+series+" SELECT "+values+" FROM s"); err != nil {
			x.b.Fatalf("%s: %v", into, err)
		}
	}
}

// block is the id of the block whose number an expression gives.
func (x country) block(number string) string {
	if x.postgres {
		return "decode(lpad(to_hex(" + number + " + 1), 32, '0'), 'hex')"
	}
	return "unhex(printf('%032x', " + number + " + 1))"
}

// at is the time of row i of n: they come in their order, as claims do.
func (x country) at(n, later int) string {
	seconds := fmt.Sprintf("%d + i * %d / %d", countrySince+later, countryDays*86400, n)
	if x.postgres {
		return `to_char(to_timestamp(` + seconds + `) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS".000Z"')`
	}
	return "strftime('%Y-%m-%dT%H:%M:%S.000Z', " + seconds + ", 'unixepoch')"
}

// spread scatters numbers over terminals: neighbours in time are not neighbours in place.
func (x country) spread() string {
	return fmt.Sprintf("'t-' || ((i * 7919 + i / 7) %% %d)", x.terminals)
}

func (x country) fill() {
	began := time.Now()
	now, noHash := "'"+stored(countryNow)+"'", "'0000000000000000000000000000000000000000000000000000000000000000'"
	x.each(x.terminals, "terminals(name, state, added, contact, program, ack_hash, region, shop, head_seq, ack_seq)",
		"'t-' || i, 'enrolled', "+now+", "+now+", 'terminald', "+noHash+", 'r-' || (i % 18), 's-' || (i / 2), 0, 0")
	x.each(countryBlocks, "blocks(block_id, serial, sha256, size, game, name, emission, number, game_code, tickets, first_pack, last_pack, pack_size, price_minor, currency, scaled, min_reader, published)",
		x.block("i")+", 1, 'sum-' || i, 1, 'game-' || (i / 4), 'Game', '1', i % 4, '00' || (400 + i), 9000000, 0, 149999, 60, 1000, 'EUR', 0, 1, "+now)
	x.each(countryBlocks*8, "block_tiers(block_id, tier, tickets, amount_minor)", x.block("i / 8")+", 1 + i % 8, 250000, 200000 / (1 + i % 8)")
	x.each(x.terminals*10, "packs(block_id, pack, game_code, state, owner, epoch, changed, activated, settled)",
		x.block(fmt.Sprintf("i %% %d", countryBlocks))+", i / 40, '00' || (400 + i % 40), CASE WHEN i % 3 = 0 THEN 'settled' ELSE 'active' END, 't-' || (i / 10), 1, "+now+", "+x.at(x.terminals*10, 0)+", CASE WHEN i % 3 = 0 THEN "+x.at(x.terminals*10, 0)+" ELSE '' END")
	x.each(x.claims, "claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received, entered)",
		x.block("i % 40")+", i / 2400, i / 40 % 60, 0, '0123456789abcdef0123456789abcdef', "+x.spread()+", 1, 1 + i, 1 + i % 8, 200000 / (1 + i % 8), 'EUR', 'marie', "+x.at(x.claims, 0)+", "+x.at(x.claims, 60)+", 'scan'")
	if _, ok := x.b.(*testing.B); !ok { // the rest is not asked for
		return
	}
	x.each(x.claims/10, "sightings(block_id, pack, ticket, terminal, number, reason, entered, operator, seen, received)",
		x.block("i % 40")+", i / 240, i / 4 % 60, "+x.spread()+", i, 'winner', 'scan', 'marie', "+x.at(x.claims/10, 0)+", "+x.at(x.claims/10, 60))
	x.each(x.claims/10, "looks(terminal, day, reason, entered, number)", fmt.Sprintf("'t-' || (i %% %d), substr(%s, 1, 10), 'reason-' || i, 'scan', 20", x.terminals, x.at(x.claims/10, 0)))
	x.each(x.claims/100, "outages(terminal, code, began, ended, cause)", x.spread()+", 'no-contact', "+x.at(x.claims/100, 0)+", "+x.at(x.claims/100, 3600)+", 'link'")
	x.b.Logf("%d terminals and %d claims written in %v", x.terminals, x.claims, time.Since(began).Round(time.Second))
}

// analyse does what PostgreSQL does by itself in time.
func (x country) analyse() {
	if !x.postgres {
		return
	}
	if _, err := x.db.ExecContext(x.b.Context(), "VACUUM ANALYZE"); err != nil {
		x.b.Fatal(err)
	}
}
