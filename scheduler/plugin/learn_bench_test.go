package plugin

import "testing"

// What a plain pod costs the plugin when it arrives. The mix changes while the
// first few hundred come, and each change is worked out.
func BenchmarkPlainPodsArrive(b *testing.B) {
	const pods = 2000
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		f := newFixture(b, nil)
		f.addNode("n", 128)
		f.setGPUs("n", 80000, 80000, 80000, 80000, 80000, 80000, 80000, 80000)
		plain := podOf("plain", "cpu=1")
		b.StartTimer()
		for range pods {
			f.k.podArrived(plain)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/pods, "us/pod")
}
