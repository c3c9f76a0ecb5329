package memory

import "ckptplan/internal/model/graph"

// flight is a copy to the host on its own stream. The device keeps the storage until block until is over; the compute
// stream then waits for the copy if it has not left.
type flight struct {
	storage graph.StorageID
	static  bool
	until   int32
	done    int64
}

// now is the time of the compute stream.
func (m *machine) now() int64 { return m.time.Step() }

// send puts a copy on the link and gives the time at which it is done. Copies go one after the other.
func (m *machine) send(bytes int64) int64 {
	m.linkFree = max(m.linkFree, m.now())
	if m.cost != nil {
		m.linkFree += m.cost.sheet.CopyTime(bytes)
	}
	return m.linkFree
}

// wait stops the compute stream until a copy is done: offloading time that is not hidden.
func (m *machine) wait(done int64) { m.time.Transfer += max(0, done-m.now()) }

// depart starts a copy to the host that may take until window more blocks have run.
func (m *machine) depart(s saveEntry, window int32) {
	m.host += s.bytes
	m.res.HostPeak = max(m.res.HostPeak, m.host)
	if !s.static {
		m.hold(s.storage, 0)
	}
	m.flights = append(m.flights, flight{storage: s.storage, static: s.static, until: m.g.Ops[m.at.Op].Block + window, done: m.send(s.bytes)})
}

// land frees the storages whose copies must be done before block b runs.
func (m *machine) land(b int32) {
	for len(m.flights) > 0 && m.flights[0].until < b {
		f := m.flights[0]
		m.flights = m.flights[1:]
		m.wait(f.done)
		if !f.static {
			m.release(f.storage, 0)
		}
	}
}

// fetch starts the copies of the regions in the blocks that backward reaches within their windows after block b.
func (m *machine) fetch(b int32) {
	if len(m.back) == 0 {
		for range m.s.Regions {
			m.back = append(m.back, -1)
		}
	}
	for r := len(m.s.Regions) - 1; r >= 0; r-- {
		reg := &m.s.Regions[r]
		if at := m.g.Ops[reg.First].Block; reg.Window > 0 && m.back[r] < 0 && at <= b && at >= b-reg.Window {
			m.bring(int32(r))
		}
	}
}

// bring allocates room for everything that a region saved and starts the copies back.
func (m *machine) bring(r int32) {
	reg := &m.s.Regions[r]
	for i := reg.End - 1; i >= reg.First; i-- {
		e := &m.p.ops[i]
		for k := e.save; k < e.saveEnd; k++ {
			if s := &m.p.saves[k]; !s.param {
				m.host -= s.bytes
				m.back[r] = m.send(s.bytes)
				m.alloc(m.ids.returned(m.micro.base, k), s.bytes, "aten._to_copy")
			}
		}
	}
	m.back[r] = max(m.back[r], 0)
}

// arrived waits for a region's copies.
func (m *machine) arrived(r int32) {
	if m.back[r] < 0 {
		m.bring(r)
	}
	m.wait(m.back[r])
}
