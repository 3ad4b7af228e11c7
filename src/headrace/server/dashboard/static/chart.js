// A line over time on a small canvas, with what was promised as a dashed line.

/** Draw pairs of a moment and a value; a value that is null leaves a gap. */
export function draw(canvas, points, promised) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const known = points.filter(([, value]) => value !== null && Number.isFinite(value));
  if (known.length < 2) return;
  const style = getComputedStyle(canvas);
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const most = Math.max(...known.map(([, value]) => value), promised ?? 0) || 1;
  const x = (at) => ((at - first) / (last - first || 1)) * (width - 2) + 1;
  const y = (value) => height - 2 - (value / most) * (height - 4);
  if (promised !== null && promised !== undefined) line(context, [[1, y(promised)], [width - 1, y(promised)]], style.getPropertyValue("--warn"), [4, 4]);
  line(context, points.map(([at, value]) => (value !== null && Number.isFinite(value) ? [x(at), y(value)] : null)), style.getPropertyValue("--line"), []);
}

function line(context, places, colour, dash) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash(dash);
  context.beginPath();
  let pen = false;
  for (const place of places) {
    if (place === null) {
      pen = false;
    } else if (pen) {
      context.lineTo(...place);
    } else {
      context.moveTo(...place);
      pen = true;
    }
  }
  context.stroke();
}
